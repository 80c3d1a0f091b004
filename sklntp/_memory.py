"""How much memory is left, so that a result that cannot fit is refused before it is built."""

from pathlib import Path

_SHARE = 0.8  # of the memory that is left, for one result: the rest is for what makes it
_UNTOLD = 4e9  # bytes, where the system does not tell
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (  # limit, use, and in memory.stat the name of what can be dropped, in versions 2 and 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def available_memory():
    """Bytes that can still be used, by Linux's own account; elsewhere 4 GB.

    In a container, what its limit leaves.
    """
    left = [_UNTOLD]
    try:
        lines = _MEMINFO.read_text().splitlines()
        left = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        pass
    for limit, use, cache in _CGROUPS:
        try:
            number = int(Path(limit).read_text())  # "max": no limit
            stat = Path(limit).with_name("memory.stat").read_text().split()
            free = int(stat[stat.index(cache) + 1])
            left.append(max(0, number - int(Path(use).read_text()) + free))
        except (OSError, ValueError):
            pass
    return min(left, default=_UNTOLD)


def check_memory(what, shape, instead):
    """Refuse a float64 array of a shape that would not fit into the memory that is left.

    Raises
    ------
    MemoryError
        As numpy would, but before the work and with the shape, both sizes and what to do instead.
    """
    size, left = 8 * shape[0] * shape[1], available_memory()
    if size > _SHARE * left:
        raise MemoryError(
            f"{what} of shape {shape} would take {size / 1e9:.1f} GB, but {left / 1e9:.1f} GB of "
            f"memory are available, of which a result may take {_SHARE:.0%}. {instead}"
        )
