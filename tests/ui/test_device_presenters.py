"""What the window says of the owner's devices."""

from __future__ import annotations

import msgspec
import pytest

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import DeviceSnapshot, PairedSnapshot, PairingSnapshot, SpaceSnapshot
from app.ui.device_presenters import (
    DeviceAction,
    DevicesPage,
    Invitation,
    are_typed,
    draw_numbers,
    is_code,
    join_error_text,
    joined_heading,
    present_devices,
    present_invitation,
    shut_out_done,
)
from app.ui.presenters import Tone
from app.ui.wording import Wording
from tests.ui.fake_engine import make_device

WORDING = Wording()
SHOWN = PairingSnapshot(
    code="417-220-935", link="hearthreel://pair/417220935", addresses=("a:1", "b:2"), found_by_code=True, valid_s=600
)
OPEN = Invitation(shown=SHOWN, since_s=100.0)


def page(*devices: DeviceSnapshot, words_pending: bool = False, trouble: ErrorInfo | None = None) -> DevicesPage:
    """Return the page of this device and ``devices``."""
    this = make_device("Desk", this=True, added_by="words")
    space = SpaceSnapshot(owner="o", vault_key="k", words_pending=words_pending, devices=(*devices, this))
    return present_devices(space, trouble, WORDING)


def test_this_device_comes_first_and_cannot_be_shut_out_from_here() -> None:
    shown = page(make_device("Laptop"))
    assert [row.title for row in shown.members] == ["Desk", "Laptop"]
    assert shown.members[0].is_this
    assert shown.members[0].actions == ()
    assert shown.members[0].link_text == ""
    assert shown.members[1].actions == (DeviceAction.SHUT_OUT,)


@pytest.mark.parametrize(
    ("path", "rate", "text"),
    [
        ("lan", 48_300_000, "Connected · LAN · 48.3 MB/s"),
        ("direct", None, "Connected · direct"),
        ("relay", 412_000, "Connected · relay · 412 kB/s"),
    ],
)
def test_a_connected_device_says_how_and_how_fast(path: str, rate: int | None, text: str) -> None:
    row = page(make_device("Laptop", path=path, rate_bytes_s=rate)).members[1]
    assert (row.link_text, row.tone) == (text, Tone.DONE)
    assert row.link_tip


def test_a_device_that_is_away_says_why_and_only_what_needs_somebody_is_a_warning() -> None:
    away = ErrorInfo(code=str(ErrorCode.UNREACHABLE), message="It may be off.")
    stranger = ErrorInfo(code=str(ErrorCode.NOT_TRUSTED), message="That is another device.")
    _this, off, odd, fresh = page(
        make_device("Off", trouble=away), make_device("Odd", trouble=stranger), make_device("Fresh")
    ).members
    assert (off.link_text, off.tone) == ("Not connected. It may be off.", Tone.WAITING)
    assert (odd.link_text, odd.tone) == ("Not connected. That is another device.", Tone.WARNING)
    assert (fresh.link_text, fresh.tone) == ("Looking for it…", Tone.WAITING)


def test_two_devices_of_one_name_can_be_told_apart() -> None:
    rows = page(make_device("Laptop", id="aaaaaaaaaa"), make_device("Laptop", id="bbbbbbbbbb")).members
    assert rows[1].note.endswith("aaaaaa")
    assert rows[2].note.endswith("bbbbbb")


def test_a_name_from_another_device_cannot_add_lines_or_turn_text_around() -> None:
    row = page(make_device("Lap\ntop\u202e", added_by="x\ny")).members[1]
    assert row.title == "Lap\ufffdtop\ufffd"
    assert "\n" not in row.note


def test_a_moment_that_no_calendar_has_is_a_dash() -> None:
    assert "–" in page(make_device("Laptop", added_at_ms=10**18)).members[1].note


def test_shut_out_devices_are_listed_apart_with_when_and_by_whom() -> None:
    gone = make_device("Phone", state="revoked", revoked_at_ms=1_700_000_000_000, revoked_by="Laptop")
    by_words = msgspec.structs.replace(gone, revoked_by="words")
    shown = page(gone, by_words)
    assert [row.title for row in shown.members] == ["Desk"]
    assert shown.former[0].actions == ()
    assert shown.former[0].note.startswith("Shut out on 2023-11-1")
    assert "by Laptop" in shown.former[0].note
    assert "with the 24 words" in shown.former[1].note


def test_a_device_that_is_out_itself_lets_nobody_in_and_shuts_nobody_out() -> None:
    this = make_device("Desk", this=True, state="revoked", revoked_by="Laptop")
    space = SpaceSnapshot(owner="o", vault_key="k", words_pending=False, devices=(make_device("Laptop"), this))
    shown = present_devices(space, None, WORDING)
    assert not shown.can_add
    assert not shown.is_alone
    assert "does not belong" in shown.trouble
    assert all(row.actions == () for row in (*shown.members, *shown.former))
    assert shown.members[0].link_text == ""  # nobody is looking for it


def test_the_words_are_reminded_of_until_they_are_confirmed() -> None:
    assert "24 words" in page(words_pending=True).reminder
    assert page().reminder == ""


def test_an_old_list_says_so_and_shows_no_green_point() -> None:
    trouble = ErrorInfo(code=str(ErrorCode.ENGINE_GONE), message="The engine has stopped.")
    shown = page(make_device("Laptop", path="lan"), trouble=trouble)
    assert shown.trouble == "This list may be out of date. The engine has stopped."
    assert {row.tone for row in shown.members} == {Tone.QUIET}
    assert present_devices(None, trouble, WORDING) == DevicesPage(trouble="The engine has stopped.")


# showing a code


def test_an_open_code_shows_itself_its_addresses_and_the_time_left() -> None:
    view = present_invitation(OPEN, 142.5, WORDING)
    assert (view.code, view.link, view.address) == (SHOWN.code, SHOWN.link, "a:1\nb:2")
    assert view.time_left == "Valid for 9:17"
    assert not view.can_renew


def test_where_the_code_is_not_announced_the_address_is_asked_for() -> None:
    hidden = msgspec.structs.replace(SHOWN, found_by_code=False)
    text = present_invitation(Invitation(shown=hidden), 0.0, WORDING).text
    assert "Type this code and the address there" in text
    assert "If it does not find" in present_invitation(OPEN, 100.0, WORDING).text


def test_the_time_left_never_falls_below_zero() -> None:
    assert present_invitation(OPEN, 9_999.0, WORDING).time_left == "Valid for 0:00"


@pytest.mark.parametrize(
    ("used", "now_s", "words"),
    [(1.0, 130.0, "Too many wrong codes"), (0.34, 698.0, "The time is up"), (0.0, 130.0, "another one was opened")],
)
def test_a_void_code_says_why_in_words_of_the_window(used: float, now_s: float, words: str) -> None:
    error = ErrorInfo(code=str(ErrorCode.CODE_EXPIRED), message="Run “hearthreel pair” again.")
    state = msgspec.structs.replace(OPEN, used=used, error=error)
    view = present_invitation(state, now_s, WORDING)
    assert words in view.text
    assert "hearthreel pair" not in view.text
    assert view.can_renew
    assert view.code == view.link == ""


def test_another_error_is_told_as_the_engine_says_it() -> None:
    error = ErrorInfo(code=str(ErrorCode.DISK_FULL), message="The disk is full.")
    assert present_invitation(Invitation(error=error), 0.0, WORDING).text == "The disk is full."


def test_who_has_joined_is_named() -> None:
    state = msgspec.structs.replace(OPEN, paired=PairedSnapshot(id="x", name="Lap\ntop", devices=2))
    view = present_invitation(state, 130.0, WORDING)
    assert view.heading == "“Lap\ufffdtop” is one of your devices now"
    assert view.text.startswith("You have 2 devices.")
    assert view.tone == Tone.DONE
    assert view.code == ""


# joining and the rest


@pytest.mark.parametrize("text", ["417-220-935", " 417220935 ", "417 220 935", "hearthreel://pair/417220935?at=a:1"])
def test_what_can_be_a_code_may_be_sent(text: str) -> None:
    assert is_code(text)


@pytest.mark.parametrize("text", ["", "417-220", "417-220-9355", "four-one-seven", "４１７２２０９３５"])
def test_what_cannot_be_a_code_is_not_sent(text: str) -> None:
    assert not is_code(text)


def test_why_joining_failed_is_told_without_commands() -> None:
    nobody = ErrorInfo(code=str(ErrorCode.UNREACHABLE), message="hearthreel pair CODE --at HOST:PORT")
    void = ErrorInfo(code=str(ErrorCode.CODE_EXPIRED), message="Run hearthreel pair")
    other = ErrorInfo(code=str(ErrorCode.OTHER_SPACE), message="Another owner.")
    assert "type the address" in join_error_text(nobody, has_address=False, wording=WORDING)
    assert "at that address" in join_error_text(nobody, has_address=True, wording=WORDING)
    assert "show a new one" in join_error_text(void, has_address=False, wording=WORDING)
    assert join_error_text(other, has_address=False, wording=WORDING) == "Another owner."


def test_an_inviter_whose_name_is_not_known_is_not_named() -> None:
    assert joined_heading(PairedSnapshot(id="", name="", devices=2), WORDING) == "This device is one of yours now"


def test_what_a_lost_device_still_holds_is_told_as_a_warning() -> None:
    texts = shut_out_done("Laptop", "Laptop keeps titles.", WORDING)
    assert (texts.heading, texts.text, texts.tone) == (
        "“Laptop” is shut out",
        "Laptop keeps titles.",
        Tone.WARNING,
    )


def test_three_different_words_are_asked_for_in_their_order() -> None:
    asked: list[tuple[range, int]] = []

    def draw(numbers: range, count: int) -> list[int]:
        asked.append((numbers, count))
        return [24, 1, 7]

    assert draw_numbers(draw) == (1, 7, 24)
    assert asked == [(range(1, 25), 3)]


def test_the_words_can_be_sent_once_all_three_are_typed() -> None:
    assert are_typed({1: "a", 2: "b", 3: "c"})
    assert not are_typed({1: "a", 2: " ", 3: "c"})
