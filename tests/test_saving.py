"""Saved estimators: formats, files of earlier releases, and of newer ones."""

import io
import pickle
from pathlib import Path

import joblib
import numpy as np
import pytest
import saved_models
from numpy.testing import assert_allclose
from saved_models import NEW, SAVED

import sklntp
from sklntp import NTPTransformerClassifier, _saving, make_next_token_pipeline

OURS = [
    "sklntp._classifier.NTPTransformerClassifier",
    "sklntp._context_transformers.PositionTagger",
    "sklntp._ngram_transformers.NGramTokens",
]


def _joblib_bytes(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


def _skops():
    return pytest.importorskip("skops.io")


DUMPS = {"pickle": pickle.dumps, "joblib": _joblib_bytes, "skops": lambda m: _skops().dumps(m)}
LOADS = {
    "pickle": pickle.loads,
    "joblib": lambda data: joblib.load(io.BytesIO(data)),
    "skops": lambda data: _skops().loads(data, trusted=OURS),
}


@pytest.fixture(scope="module")
def fresh():
    return saved_models.estimators()


def assert_same(read, fresh):
    """A model and one fitted now say the same of new sentences; steps may differ in rounding."""
    if hasattr(fresh, "transform"):
        assert read.transform(NEW).tolist() == fresh.transform(NEW).tolist()
        return
    assert vars(read).keys() == vars(fresh).keys()
    X = NEW if fresh.vocabulary_.dtype.kind == "U" else np.array([[0, 0], [2, 1], [1, 7]])
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert read.predict(X).tolist() == fresh.predict(X).tolist()
    assert_allclose(read.predict_log_proba(X), fresh.predict_log_proba(X), **close)
    assert_allclose(np.concatenate(read.attention(X)), np.concatenate(fresh.attention(X)), **close)
    for name in ("coef_ov_", "coef_kq_", "max_margin_coef_ov_", "max_margin_coef_kq_"):
        assert_allclose(getattr(read, name), getattr(fresh, name), **close)
    assert read.collocation_ == fresh.collocation_
    assert read.get_params() == fresh.get_params()
    for stage, curves in fresh.convergence_.items():
        for name, curve in curves.items():
            if name != "stop_reason":
                assert_allclose(read.convergence_[stage][name], curve, **close)


def test_this_version_has_left_its_files():
    names = {f"{sklntp.__version__}.{ending}" for ending in LOADS}
    assert names <= {path.name for path in SAVED.iterdir()}, "run python tests/saved_models.py"


@pytest.mark.parametrize("path", sorted(SAVED.iterdir()), ids=lambda path: path.name)
def test_a_file_of_each_release_loads(path, fresh):
    read = LOADS[path.suffix[1:]](path.read_bytes())
    for name, model in read.items():
        assert_same(model, fresh[name])


@pytest.mark.parametrize("form", LOADS)
def test_what_is_read_can_be_trained_further(form, fresh):
    clf = LOADS[form](DUMPS[form](fresh["two stages"]))
    for model in (clf, fresh := pickle.loads(pickle.dumps(fresh["two stages"]))):
        model.set_params(warm_start=True, max_iter=5).fit(saved_models.X, saved_models.Y)
    np.testing.assert_array_equal(clf.coef_kq_, fresh.coef_kq_)
    assert len(clf.convergence_["kq"]["loss"]) == 26


@pytest.mark.parametrize("form", LOADS)
@pytest.mark.parametrize("name", ["two stages", "n-grams"])
def test_a_file_of_a_newer_version_is_refused(form, name, fresh, monkeypatch):
    monkeypatch.setattr(_saving, "STATE_VERSION", 7)
    monkeypatch.setattr(_saving, "__version__", "9.1")
    data = DUMPS[form](fresh[name])
    monkeypatch.undo()
    message = "was saved by sklntp 9.1 as state version 7; .* up to 1. Load it with sklntp 9.1"
    with pytest.raises(ValueError, match=message):
        LOADS[form](data)


def test_a_state_without_a_version_is_refused(fresh):
    state = {**fresh["joint"].__getstate__()}
    del state["_state_version"], state["_sklntp_version"]
    with pytest.raises(ValueError, match="an unknown version of sklntp as state version None"):
        NTPTransformerClassifier().__setstate__(state)


def test_a_refused_state_leaves_the_estimator_as_it_was(fresh):
    clf = NTPTransformerClassifier()
    before = dict(vars(clf))
    with pytest.raises(ValueError, match="state version"):
        clf.__setstate__({**fresh["joint"].__getstate__(), "_state_version": "1"})
    assert vars(clf) == before


def test_skops_has_to_trust_our_classes_only(fresh):
    found = _skops().get_untrusted_types(data=_skops().dumps(fresh))
    assert sorted(found) == OURS
    X, y = saved_models.X, saved_models.Y
    pipeline = make_next_token_pipeline(max_iter=2).fit(X, y)
    data = _skops().dumps(pipeline)
    found = _skops().get_untrusted_types(data=data)
    assert all(name.startswith("sklntp.") for name in found)
    np.testing.assert_array_equal(
        _skops().loads(data, trusted=found).predict_proba(NEW), pipeline.predict_proba(NEW)
    )


# Importing mlflow warns about its own type hints.
@pytest.mark.filterwarnings("ignore:.*type hint is inferred as AnyType:UserWarning")
def test_mlflow_saves_by_skops(fresh, tmp_path: Path):
    mlflow = pytest.importorskip("mlflow.sklearn")
    clf = fresh["two stages"]
    mlflow.save_model(
        clf,
        tmp_path / "model",
        serialization_format="skops",
        skops_trusted_types=OURS[:1],
        pip_requirements=["sklntp"],  # else it looks for them by loading the model once more
    )
    assert (tmp_path / "model" / "model.skops").exists()
    read = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(read.predict_proba(NEW), clf.predict_proba(NEW))
