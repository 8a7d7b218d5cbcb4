"""Settings of one installation: a small JSON file with the names that ``hearthreel config`` shows.

What is not in the file has its default; a name that this version does not know is kept, so that a newer and an older
version can share a data directory.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError

Value = bool | int | str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: its default, how text becomes a value, and what it does."""

    default: Value
    parse: Callable[[str], Value]
    about: str


def _parse_bool(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return words[text.strip().lower()]
    except KeyError:
        raise ValueError("on or off") from None


def _parse_count(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return parse


_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


def _parse_size(text: str) -> int:
    number = text.strip().upper().removesuffix("B").removesuffix("I").strip()
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        size = int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError("a size such as 500G, or 0 for no limit")
    return size


def _parse_choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return text

    return parse


def _parse_charset(text: str) -> str:
    """Return ``auto`` or the name of an encoding of text, as Python spells it."""
    try:
        if text != "auto" and isinstance("".encode(text), bytes):
            return codecs.lookup(text).name
    except (LookupError, ValueError, TypeError):
        text = ""
    if text != "auto":
        raise ValueError("auto, or an encoding such as cp1251 or shift-jis")
    return text


SETTINGS: dict[str, Setting] = {
    "worker.enabled": Setting(default=True, parse=_parse_bool, about="whether this device transcodes"),
    "vault.copies": Setting(default=2, parse=_parse_count(1, 20), about="on how many devices each film is kept"),
    "vault.quota": Setting(default=0, parse=_parse_size, about="most bytes of the vault here; 0 is no limit"),
    "listen.host": Setting(default="", parse=str.strip, about="address to listen on for other devices; empty is all"),
    "rendezvous": Setting(
        default="", parse=str.strip, about="where devices in other networks are met: wss://HOST; empty is nowhere"
    ),
    "ice.servers": Setting(
        default="",
        parse=str.strip,
        about="STUN and TURN servers for that: stun:HOST:PORT, turn:USER:PASSWORD@HOST:PORT, with spaces between",
    ),
    "discovery": Setting(default=True, parse=_parse_bool, about="whether devices find each other in the local network"),
    "listen.port": Setting(default=0, parse=_parse_count(0, 65535), about="port for other devices; 0 picks one"),
    "text.charset": Setting(
        default="auto", parse=_parse_charset, about="how subtitle files that are not Unicode are written"
    ),
    "profile": Setting(
        default="default", parse=_parse_choice("default", "passthrough"), about="how new films are transcoded"
    ),
}


class SettingsFile:
    """The settings of a data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Any]:
        """Return every setting by name."""
        stored = self._load()
        return {name: stored.get(name, setting.default) for name, setting in SETTINGS.items()}

    def get(self, name: str) -> Any:
        """Return one setting; raises ``ExpectedError`` bad-setting when there is none of that name."""
        _setting(name)
        return self.all()[name]

    def set(self, name: str, text: str) -> None:
        """Change one setting, durably; raises ``ExpectedError`` bad-setting, and disk errors."""
        setting = _setting(name)
        try:
            value = setting.parse(text)
        except ValueError as error:
            raise ExpectedError(ErrorCode.BAD_SETTING, f"“{text}” does not fit {name}: it takes {error}.") from error
        self._save({**self._load(), name: value})

    def _load(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise disk_error_to_ours(error, self._path) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ExpectedError(
                ErrorCode.BAD_SETTING, f"{self._path} is damaged ({error}); repair or delete it to use the defaults."
            ) from error

    def _save(self, values: dict[str, Any]) -> None:
        temporary = self._path.with_suffix(".tmp")
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(values)))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise disk_error_to_ours(error, self._path) from error


def _setting(name: str) -> Setting:
    try:
        return SETTINGS[name]
    except KeyError:
        known = ", ".join(SETTINGS)
        raise ExpectedError(ErrorCode.BAD_SETTING, f"There is no setting “{name}”; there are {known}.") from None
