"""What a saved estimator says of itself, so that no version misreads the file of a newer one."""

from sklntp._version import __version__

# Counts up when a version can no longer read fitted attributes as an earlier one meant them;
# `VersionedState.__setstate__` then translates what an earlier version wrote.
STATE_VERSION = 1


class VersionedState:
    """Mixin: saved state, of pickle, joblib or skops, tells its version; a newer one is refused."""

    def __getstate__(self):
        state = super().__getstate__()
        return {**state, "_state_version": STATE_VERSION, "_sklntp_version": __version__}

    def __setstate__(self, state):
        state = dict(state)
        version = state.pop("_state_version", None)
        writer = state.pop("_sklntp_version", "an unknown version of sklntp")
        if version not in range(1, STATE_VERSION + 1):
            raise ValueError(
                f"This {type(self).__name__} was saved by sklntp {writer} as state version "
                f"{version}; sklntp {__version__} reads state versions up to {STATE_VERSION}. "
                f"Load it with sklntp {writer} or newer, or fit it again."
            )
        super().__setstate__(state)
