"""A disk without room, in whatever words it is told."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFull(OSError):
    """There was no room for a file or a folder; what was begun is gone and whatever stood there before still stands."""


@contextmanager
def room_for(target: Path, run: Path) -> Iterator[None]:
    """Within: an error behind which there is a full disk is raised as DiskFull, which names what there was no room for.

    Args:
        target: what is written.
        run: a folder that is there, on the same disk.
    """
    try:
        yield
    except Exception as error:
        if no_room(error, run):
            raise DiskFull(errno.ENOSPC, f"No space left on the disk for {target}") from error
        raise


def no_room(error: Exception, path: Path) -> bool:
    """Whether a full disk, or a limit on files, is behind an error; libraries tell of it in errors of their own."""
    in_words = any(words in str(error) for words in ("No space left", "File too large"))
    return tells_no_room(error) or in_words or (path.exists() and shutil.disk_usage(path).free < 2**20)


def tells_no_room(error: BaseException) -> bool:
    """Whether the operating system says so itself."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
