"""Where a program is: its own lines on the stack, without those of Python's library, of packages and of this one."""

from __future__ import annotations

import os
import sysconfig
from typing import Any, Iterator

_LIBRARIES = (
    *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(__file__)),
)


def program_frames(innermost: Any, of_files: bool = True) -> Iterator[Any]:
    """The program's frames among `innermost` and its callers, in this order; of_files: but for what is in no file ("<stdin>")."""
    frame = innermost
    while frame is not None:
        if not frame.f_code.co_filename.startswith(("<" if of_files else "<frozen", *_LIBRARIES)):
            yield frame
        frame = frame.f_back


def program_lines(innermost: Any) -> str:
    """Their lines, innermost first: "model.py:12, train.py:80". The same on all ranks that have come to a line in the same way."""
    frames = program_frames(innermost, of_files=False)
    return ", ".join(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" for frame in frames)
