"""The space put aside, and a vault whose database is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine.local import LocalEngine
from app.engine.reserve import SIZE_BYTES, Reserve


def test_the_reserve_holds_real_space_and_gives_it_back_once(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    reserve.put_aside()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE_BYTES
    assert reserve.give_up()
    assert not (tmp_path / "reserve").exists()
    assert not reserve.give_up()


@pytest.mark.parametrize("how", ["gone", "empty"])
async def test_a_full_vault_without_its_database_must_not_pass_for_a_new_library(tmp_path: Path, how: str) -> None:
    data = DataDir(root=tmp_path / "data")
    engine = await LocalEngine.start(data, work=False)
    await engine._kernel.store(lambda storage: storage.vault.write_bytes(b"a film"))
    await engine.close()
    for file in data.root.glob("hearthreel.db*"):
        file.unlink()
    if how == "empty":
        data.database.touch()
    with pytest.raises(ExpectedError, match="add the films again") as error:
        await LocalEngine.start(data, work=False)
    assert error.value.code == ErrorCode.DATABASE_DAMAGED
    assert not data.database.exists() or data.database.stat().st_size == 0
