"""Display matrices: each of the eight orientations is undone by a flip and a turn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from app.transcode.picture import upright_steps
from app.transcode.probe import turn_of_matrix

MATRICES = {
    "upright": (1, 0, 0, 1),
    "quarter": (0, 1, -1, 0),
    "half": (-1, 0, 0, -1),
    "three quarters": (0, -1, 1, 0),
    "mirror": (-1, 0, 0, 1),
    "upside down mirror": (1, 0, 0, -1),
    "mirror and quarter": (0, 1, 1, 0),
    "mirror and three quarters": (0, -1, -1, 0),
}
PICTURE = np.arange(6).reshape(2, 3)

Picture = npt.NDArray[np.int_]


def place(picture: Picture, matrix: tuple[int, int, int, int]) -> Picture:
    """Show a picture as its matrix says: (x, y) goes to (a x + c y, b x + d y)."""
    a, b, c, d = matrix
    y, x = np.mgrid[0 : picture.shape[0], 0 : picture.shape[1]]
    columns, rows = a * x + c * y, b * x + d * y
    columns, rows = columns - columns.min(), rows - rows.min()
    shown = np.zeros((rows.max() + 1, columns.max() + 1), picture.dtype)
    shown[rows, columns] = picture
    return shown


def undo(picture: Picture, filters: list[str]) -> Picture:
    """Apply the FFmpeg filters that the names stand for."""
    for name, arguments in upright_steps(filters):
        match name, arguments:
            case "hflip", _:
                picture = picture[:, ::-1]
            case "vflip", _:
                picture = picture[::-1]
            case "transpose", "clock":
                picture = np.rot90(picture, -1)
            case "transpose", "cclock":
                picture = np.rot90(picture)
            case other:
                pytest.fail(f"unknown step {other}")
    return picture


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("scale", [1 << 16, 40_000], ids=["unit", "smaller"])
def test_each_orientation_is_shown_upright(name: str, scale: int) -> None:
    a, b, c, d = MATRICES[name]
    rotation, mirrored = turn_of_matrix([a * scale, b * scale, 0, c * scale, d * scale, 0, 0, 0, 1 << 30])
    filters = [*(["flip"] if mirrored else []), *([f"turn-{rotation}"] if rotation else [])]
    assert np.array_equal(undo(PICTURE, filters), place(PICTURE, MATRICES[name]))


def test_a_slight_tilt_is_no_turn() -> None:
    assert turn_of_matrix([65_000, 3000, 0, -3000, 65_000, 0, 0, 0, 1 << 30]) == (0, False)
