"""The owner's devices as rows, texts and enabled actions; pure, no Qt.

The engine's sentences about pairing name commands of the command line where it says what to do next; here the same
codes are told in the words of the window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import msgspec

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import DeviceSnapshot, PairedSnapshot, PairingSnapshot, SpaceSnapshot
from app.ui.presenters import Tone, format_day
from app.ui.wording import Wording, clean_line, format_clock, format_size

WORD_COUNT = 24
ASKED_WORDS = 3
"""How many of the words are asked for."""
_SHORT_ID = 6
_CODE_DIGITS = 9
_LATE_S = 5.0
"""The engine counts from when it made the code, the window from when it heard of it."""
_PASSING = frozenset({ErrorCode.UNREACHABLE, ErrorCode.DISCONNECTED})
"""Why a device is away that may come back by itself: no reason to worry."""


Draw = Callable[[range, int], list[int]]
"""Picks so many different numbers of a range."""


class DeviceAction(StrEnum):
    """What can be asked of a device."""

    SHUT_OUT = "shut-out"


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One device of the list."""

    key: str
    """Device id."""
    title: str
    is_this: bool
    link_text: str
    """How it is connected, or why not."""
    link_tip: str
    """What that means; empty when there is nothing to explain."""
    tone: Tone
    note: str
    """Since when, and by whom."""
    actions: tuple[DeviceAction, ...]
    spoken: str
    """All of it, for a screen reader."""


class DevicesPage(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page shows."""

    members: tuple[DeviceRow, ...] = ()
    former: tuple[DeviceRow, ...] = ()
    """Devices that were shut out."""
    reminder: str = ""
    """That the words are not confirmed yet; empty when there is nothing to remind of."""
    trouble: str = ""
    """Why the list is old or missing, or that this device is out."""
    is_known: bool = False
    """Whether the engine has answered yet."""
    is_alone: bool = False
    can_add: bool = False
    """Whether this device may let others in."""


def present_devices(space: SpaceSnapshot | None, trouble: ErrorInfo | None, wording: Wording) -> DevicesPage:
    """Return the page for what was heard last; ``trouble`` is why nothing newer came."""
    if space is None:
        return DevicesPage(trouble=clean_line(trouble.message) if trouble else "")
    shared = {name for name, number in Counter(one.name for one in space.devices).items() if number > 1}
    ordered = sorted(space.devices, key=lambda one: not one.this)
    this = next((one for one in ordered if one.this), None)
    is_in = this is not None and this.state == "member"

    def rows(state: str) -> tuple[DeviceRow, ...]:
        return tuple(
            _present(one, wording, is_in=is_in, is_ambiguous=one.name in shared, is_old=trouble is not None)
            for one in ordered
            if one.state == state
        )

    members = rows("member")
    return DevicesPage(
        members=members,
        former=rows("revoked"),
        reminder=_reminder(wording) if space.words_pending else "",
        trouble=_page_trouble(trouble, wording, is_in=is_in),
        is_known=True,
        is_alone=is_in and len(members) == 1,
        can_add=is_in,
    )


def _reminder(wording: Wording) -> str:
    return wording.say(
        "Write down your 24 words. They are above all your devices: with them you get back in when every device is "
        "lost. They lie on this device until you have confirmed them."
    )


def _page_trouble(trouble: ErrorInfo | None, wording: Wording, *, is_in: bool) -> str:
    if trouble is not None:
        return wording.say("This list may be out of date. {why}", why=clean_line(trouble.message))
    if not is_in:
        return wording.say(
            "This device does not belong to your devices (any more). Its films stay here, but nothing is exchanged. "
            "“Join with a code” says what can be done."
        )
    return ""


def _present(one: DeviceSnapshot, wording: Wording, *, is_in: bool, is_ambiguous: bool, is_old: bool) -> DeviceRow:
    title = clean_line(one.name)
    link, tone = _link(one, wording) if is_in else ("", Tone.QUIET)
    note = _note(one, wording)
    if is_ambiguous:
        note = f"{note} · {one.id[:_SHORT_ID]}"
    can_shut_out = is_in and not one.this and one.state == "member"
    here = wording.say("This device") if one.this else ""
    tip = _meaning(one.path, wording) if link else ""
    return DeviceRow(
        key=one.id,
        title=title,
        is_this=one.this,
        link_text=link,
        link_tip=tip,
        tone=Tone.QUIET if is_old else tone,
        note=note,
        actions=(DeviceAction.SHUT_OUT,) if can_shut_out else (),
        spoken=", ".join(part for part in (title, here, link, note) if part),
    )


def _link(one: DeviceSnapshot, wording: Wording) -> tuple[str, Tone]:
    if one.this or one.state != "member":
        return "", Tone.QUIET
    if one.path is not None:
        return _connected(one, one.path, wording), Tone.DONE
    if one.trouble is None:
        return wording.say("Looking for it…"), Tone.WAITING
    tone = Tone.WAITING if one.trouble.code in _PASSING else Tone.WARNING
    return wording.say("Not connected. {why}", why=clean_line(one.trouble.message)), tone


def _connected(one: DeviceSnapshot, path: str, wording: Wording) -> str:
    ways = {"lan": wording.say("LAN"), "direct": wording.say("direct"), "relay": wording.say("relay")}
    parts = [wording.say("Connected"), ways.get(path, clean_line(path))]
    if one.rate_bytes_s:
        parts.append(f"{format_size(one.rate_bytes_s)}/s")
    return " · ".join(parts)


def _meaning(path: str | None, wording: Wording) -> str:
    match path:
        case "lan":
            return wording.say("Both devices are in the same local network.")
        case "direct":
            return wording.say("The devices reach each other across networks, with nothing in between.")
        case "relay":
            return wording.say(
                "No direct way was found, so a relay passes the bytes on. It cannot read them, but it is slower."
            )
        case _:
            return ""


def _note(one: DeviceSnapshot, wording: Wording) -> str:
    if one.state != "member":
        day = format_day(one.revoked_at_ms or one.added_at_ms)
        if one.revoked_by in {None, "words"}:
            return wording.say("Shut out on {day} with the 24 words", day=day)
        return wording.say("Shut out on {day} by {name}", day=day, name=clean_line(one.revoked_by or ""))
    day = format_day(one.added_at_ms)
    if one.added_by == "words":
        return wording.say("Yours since {day}", day=day)
    return wording.say("Yours since {day}, added by {name}", day=day, name=clean_line(one.added_by))


# Showing a code


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the code that is shown."""

    shown: PairingSnapshot | None = None
    """None until the engine has made it."""
    since_s: float = 0.0
    """When it was heard of, on a monotonic clock."""
    used: float = 0.0
    """Share of the tries that are used up."""
    warning: str = ""
    """About somebody who came and did not get in."""
    paired: PairedSnapshot | None = None
    error: ErrorInfo | None = None
    """Why it is over."""


class InvitationView(msgspec.Struct, frozen=True, kw_only=True):
    """What the dialog shows of an invitation."""

    heading: str
    text: str
    tone: Tone
    """Of the heading: how it stands."""
    code: str = ""
    """Empty when there is none (any more)."""
    link: str = ""
    """What the QR code says."""
    address: str = ""
    time_left: str = ""
    warning: str = ""
    can_renew: bool = False
    """Whether a new code can be asked for."""
    close: str
    """Label of the button that closes the dialog."""


def present_invitation(state: Invitation, now_s: float, wording: Wording) -> InvitationView:
    """Return what to show at ``now_s`` (monotonic)."""
    say = wording.say
    if state.paired is not None:
        return InvitationView(
            heading=say("“{name}” is one of your devices now", name=clean_line(state.paired.name)),
            text=_paired_text(state.paired, wording),
            tone=Tone.DONE,
            close=say("Done"),
        )
    if state.error is not None:
        return InvitationView(
            heading=say("Nobody joined"),
            text=_ended_text(state, state.error, now_s, wording),
            tone=Tone.ERROR,
            can_renew=True,
            close=say("Close"),
        )
    if state.shown is None:
        return InvitationView(
            heading=say("Add a device"), text=say("Making a code…"), tone=Tone.WAITING, close=say("Cancel")
        )
    return InvitationView(
        heading=say("Add a device"),
        text=_steps(state.shown, wording),
        tone=Tone.WORKING,
        code=state.shown.code,
        link=state.shown.link,
        address="\n".join(state.shown.addresses),
        time_left=say("Valid for {clock}", clock=format_clock(_left_s(state, state.shown, now_s))),
        warning=state.warning,
        close=say("Cancel"),
    )


def _left_s(state: Invitation, shown: PairingSnapshot, now_s: float) -> float:
    return max(0.0, state.since_s + shown.valid_s - now_s)


def _steps(shown: PairingSnapshot, wording: Wording) -> str:
    if shown.found_by_code:
        return wording.say(
            "1. Open Hearthreel on the other device.\n"
            "2. Go to Devices and choose “Join with a code”.\n"
            "3. Type this code there. If it does not find this device, type the address, too."
        )
    return wording.say(
        "1. Open Hearthreel on the other device.\n"
        "2. Go to Devices and choose “Join with a code”.\n"
        "3. Type this code and the address there; this device cannot be found by the code alone."
    )


def _paired_text(paired: PairedSnapshot, wording: Wording) -> str:
    return wording.count(
        paired.devices,
        "You have {n} device.",
        "You have {n} devices. They share films and work whenever they can reach each other.",
    )


def _ended_text(state: Invitation, error: ErrorInfo, now_s: float, wording: Wording) -> str:
    if error.code != ErrorCode.CODE_EXPIRED:
        return clean_line(error.message)
    if state.used >= 1:
        return wording.say(
            "Too many wrong codes were typed, so this code is void. Somebody mistyped, or tried to get in; nothing "
            "was given away."
        )
    if state.shown is not None and _left_s(state, state.shown, now_s) <= _LATE_S:
        return wording.say("The time is up, so this code is void.")
    return wording.say("This code is void: another one was opened since, or Hearthreel was restarted.")


# Joining with a code


def is_code(text: str) -> bool:
    """Return whether ``text`` can be a code (nine digits, with or without separators) or the text of a QR code."""
    typed = text.strip()
    if typed.lower().startswith("hearthreel:"):
        return True
    return re.fullmatch(rf"[0-9]{{{_CODE_DIGITS}}}", re.sub(r"[\s\-./]", "", typed)) is not None


def join_hint(wording: Wording) -> str:
    """Return what joining means."""
    return wording.say(
        "Choose “Add a device” on a device that is yours already, and type the code that it shows. What is on this "
        "device joins your common library."
    )


def joined_heading(paired: PairedSnapshot, wording: Wording) -> str:
    """Return the good news after this device joined another."""
    if not paired.name:
        return wording.say("This device is one of yours now")
    return wording.say("This device is connected with “{name}”", name=clean_line(paired.name))


def joined_text(paired: PairedSnapshot, wording: Wording) -> str:
    """Return what follows from having joined."""
    return _paired_text(paired, wording)


def join_error_text(info: ErrorInfo, *, has_address: bool, wording: Wording) -> str:
    """Return why joining failed and what to do."""
    match info.code:
        case ErrorCode.UNREACHABLE if has_address:
            return wording.say(
                "No device that shows a code answers at that address. Check that the code is still shown there, that "
                "the address is right, and that no firewall is in the way."
            )
        case ErrorCode.UNREACHABLE:
            return wording.say(
                "No device that shows this code was found in this network. Check the code, or type the address that "
                "the other device shows."
            )
        case ErrorCode.CODE_EXPIRED:
            return wording.say("The other device does not accept this code any more. Have it show a new one.")
        case _:
            return clean_line(info.message)


# Shutting out


class ShutOutTexts(msgspec.Struct, frozen=True, kw_only=True):
    """A question, or what came of it."""

    heading: str
    text: str
    tone: Tone


def shut_out_question(row: DeviceRow, wording: Wording) -> ShutOutTexts:
    """Return what to ask before a device is shut out."""
    return ShutOutTexts(
        heading=wording.say("Shut out “{name}”?", name=row.title),
        text=wording.say(
            "For a device that was lost, stolen or given away. All your devices refuse it from now on, and it gets "
            "nothing new: what you add later is sealed with a key that it does not have.\n\n"
            "What it holds already it keeps; nobody can take that back from afar. This cannot be undone: to come "
            "back, it must start anew as another device."
        ),
        tone=Tone.WARNING,
    )


def shut_out_done(name: str, still_holds: str, wording: Wording) -> ShutOutTexts:
    """Return what to say after it was done: what the device may still hold."""
    return ShutOutTexts(
        heading=wording.say("“{name}” is shut out", name=clean_line(name)),
        text=clean_line(still_holds),
        tone=Tone.WARNING,
    )


# The words


def words_hint(wording: Wording) -> str:
    """Return what to do with the words."""
    return wording.say(
        "Write them down on paper, in this order, and keep the paper where no thief of your devices looks. Whoever "
        "has these words has everything; without them, nobody can help you when all devices are lost."
    )


def confirm_hint(wording: Wording) -> str:
    """Return what confirming does."""
    return wording.say(
        "Type these words from your paper. Then all 24 are deleted from this device, and the paper is the only place "
        "that has them."
    )


def confirmed_text(wording: Wording) -> str:
    """Return what to say once the words were confirmed."""
    return wording.say("They were deleted from this device. Your paper is the only place that has them now.")


def draw_numbers(draw: Draw) -> tuple[int, ...]:
    """Return the numbers, from 1, of the words to ask for."""
    return tuple(sorted(draw(range(1, WORD_COUNT + 1), ASKED_WORDS)))


def are_typed(words: dict[int, str]) -> bool:
    """Return whether something was typed for each word."""
    return len(words) == ASKED_WORDS and all(word.strip() for word in words.values())
