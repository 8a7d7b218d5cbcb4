"""The pairing machines: the right code lets in, anything else learns nothing, and both sides say so."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import owner_keys
from app.storage.signing import DeviceKeys
from app.sync import pairing
from app.sync.addresses import Address
from app.sync.pairing import (
    CODE_LIFE_S,
    MAX_TRIES,
    Asked,
    Failed,
    Inviter,
    Joiner,
    Paired,
    PairingCode,
    PairingOffer,
    State,
    Welcome,
    Welcomed,
    code_address,
    draw_code,
    parse_code,
)
from tests.sync.people import DEVICES, OWNER_SECRET

CODE, _ = parse_code("417-220-935")
WRONG, _ = parse_code("417-220-936")
SECRET_STATEMENT = b"a statement that no stranger may see"


def welcome_of(keys: DeviceKeys) -> Welcome:
    owner = owner_keys(OWNER_SECRET)
    return Welcome(
        owner_signing=owner.signing,
        owner_sealing=owner.sealing,
        device=keys.public,
        statements=(SECRET_STATEMENT,),
        addresses=(Address(host="10.0.0.7", port=4000),),
    )


def inviter(offer: PairingOffer) -> Inviter:
    return Inviter(offer, keys=DEVICES["A"])


def joiner(code: PairingCode = CODE) -> Joiner:
    return Joiner(code, keys=DEVICES["B"], name="Device B")


class Wire:
    """Carries bytes between two machines, a few at a time, and keeps all that passed."""

    def __init__(self, one: Inviter, two: Joiner, *, cut: int = 1_000_000, now_s: float = 0.0) -> None:
        self.one = one
        self.two = two
        self.seen = b""
        self._cut = cut
        self._now_s = now_s

    def carry(self) -> None:
        """Carry until both are silent."""
        while True:
            to_two, to_one = self.one.data_to_send(), self.two.data_to_send()
            if not to_one and not to_two:
                return
            self.seen += to_one + to_two
            for start in range(0, len(to_one), self._cut):
                self.one.receive_data(to_one[start : start + self._cut], now_s=self._now_s)
            for start in range(0, len(to_two), self._cut):
                self.two.receive_data(to_two[start : start + self._cut], now_s=self._now_s)


def event_of(machine: Inviter | Joiner) -> pairing.Event:
    event = machine.next_event()
    assert event is not None
    return event


def failure_of(machine: Inviter | Joiner) -> ErrorCode:
    """Return the code with which a machine failed; its sentence must say what to do."""
    event = event_of(machine)
    assert isinstance(event, Failed), event
    assert machine.state is State.FAILED
    assert machine.next_event() is None
    assert event.error.message.endswith(".")
    return event.error.code


def fresh_offer() -> PairingOffer:
    return PairingOffer(CODE, now_s=0.0)


@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
def test_the_right_code_pairs(cut: int) -> None:
    wire = Wire(inviter(fresh_offer()), joiner(), cut=cut)
    wire.carry()
    asked = event_of(wire.one)
    assert asked == Asked(device=DEVICES["B"].public, name="Device B")
    wire.one.welcome(welcome_of(DEVICES["A"]))
    wire.carry()
    assert event_of(wire.two) == Welcomed(welcome=welcome_of(DEVICES["A"]))
    wire.two.joined()
    wire.carry()
    assert (event_of(wire.one), event_of(wire.two)) == (Paired(), Paired())
    assert (wire.one.state, wire.two.state) == (State.PAIRED, State.PAIRED)


def test_nothing_of_the_space_or_the_devices_passes_in_the_clear() -> None:
    wire = Wire(inviter(fresh_offer()), joiner())
    wire.carry()
    wire.one.welcome(welcome_of(DEVICES["A"]))
    wire.carry()
    wire.two.joined()
    wire.carry()
    owner = owner_keys(OWNER_SECRET)
    secrets = (SECRET_STATEMENT, owner.signing, owner.sealing, b"Device B", b"10.0.0.7", CODE.secret.encode())
    for secret in (*secrets, DEVICES["A"].public, DEVICES["B"].public):
        assert secret not in wire.seen


def test_a_wrong_code_is_told_on_both_sides_and_costs_a_try() -> None:
    offer = fresh_offer()
    wire = Wire(inviter(offer), joiner(WRONG))
    wire.carry()
    assert failure_of(wire.one) is ErrorCode.WRONG_CODE
    assert failure_of(wire.two) is ErrorCode.WRONG_CODE
    assert offer.tries_left == MAX_TRIES - 1


def test_a_code_is_void_after_three_wrong_tries() -> None:
    offer = fresh_offer()
    for _ in range(MAX_TRIES):
        Wire(inviter(offer), joiner(WRONG)).carry()
    wire = Wire(inviter(offer), joiner())
    wire.carry()
    assert failure_of(wire.one) is ErrorCode.CODE_EXPIRED
    assert failure_of(wire.two) is ErrorCode.CODE_EXPIRED


def test_tries_on_several_connections_at_once_are_counted_together() -> None:
    """Whoever opens many connections before giving the first proof has not more tries."""
    offer = fresh_offer()
    wires = [Wire(inviter(offer), joiner(WRONG)) for _ in range(5)]
    for wire in wires:
        wire.one.receive_data(wire.two.data_to_send(), now_s=0.0)
    for wire in wires:
        wire.carry()
    codes = [failure_of(wire.one) for wire in wires]
    assert codes == [ErrorCode.WRONG_CODE] * 3 + [ErrorCode.CODE_EXPIRED] * 2


def test_a_code_ends_after_ten_minutes() -> None:
    wire = Wire(inviter(fresh_offer()), joiner(), now_s=CODE_LIFE_S)
    wire.carry()
    assert failure_of(wire.one) is ErrorCode.CODE_EXPIRED
    assert failure_of(wire.two) is ErrorCode.CODE_EXPIRED


def test_a_code_lets_in_once() -> None:
    offer = fresh_offer()
    first, second = Wire(inviter(offer), joiner()), Wire(inviter(offer), joiner())
    first.carry()
    second.carry()
    assert isinstance(event_of(first.one), Asked)
    assert failure_of(second.one) is ErrorCode.CODE_EXPIRED


def test_a_code_may_be_tried_again_when_the_connection_broke() -> None:
    offer = fresh_offer()
    first = Wire(inviter(offer), joiner())
    first.carry()
    event_of(first.one)
    first.one.connection_lost()
    assert failure_of(first.one) is ErrorCode.UNREACHABLE
    second = Wire(inviter(offer), joiner())
    second.carry()
    assert isinstance(event_of(second.one), Asked)


def test_a_man_in_the_middle_who_guesses_learns_nothing_and_both_sides_say_so() -> None:
    """It plays the inviter to the joiner and the joiner to the inviter, with a code that it guessed."""
    offer = fresh_offer()
    real_inviter, real_joiner = inviter(offer), joiner()
    guessed, _ = parse_code("417-000-000")
    to_joiner = Wire(Inviter(PairingOffer(guessed, now_s=0.0), keys=DEVICES["H"]), real_joiner)
    to_inviter = Wire(real_inviter, Joiner(guessed, keys=DEVICES["H"], name="Eve"))
    to_joiner.carry()
    to_inviter.carry()
    assert failure_of(real_inviter) is ErrorCode.WRONG_CODE
    assert failure_of(real_joiner) is ErrorCode.WRONG_CODE
    assert failure_of(to_joiner.one) is ErrorCode.WRONG_CODE
    assert failure_of(to_inviter.two) is ErrorCode.WRONG_CODE
    assert offer.tries_left == MAX_TRIES - 1


def test_a_false_inviter_cannot_confirm_without_the_code() -> None:
    """It answers with whatever proof it likes, or with the joiner's own."""
    for proof in (bytes(32), None):
        victim = joiner()
        hello = Inviter(PairingOffer(WRONG, now_s=0.0), keys=DEVICES["H"])
        hello.receive_data(victim.data_to_send(), now_s=0.0)
        victim.receive_data(hello.data_to_send(), now_s=0.0)
        confirm = victim.data_to_send()
        if proof is not None:
            data = pairing._encode(pairing.Confirm(proof=proof))
            confirm = len(data).to_bytes(4, "big") + data
        victim.receive_data(confirm, now_s=0.0)
        assert failure_of(victim) is ErrorCode.WRONG_CODE
        refusal = victim.data_to_send()
        assert DEVICES["B"].public not in refusal


def test_ones_own_messages_sent_back_are_refused() -> None:
    victim = joiner()
    victim.receive_data(victim.data_to_send(), now_s=0.0)
    assert failure_of(victim) is ErrorCode.BAD_MESSAGE


def test_a_refusal_reaches_the_other_side() -> None:
    wire = Wire(inviter(fresh_offer()), joiner())
    wire.carry()
    event_of(wire.one)
    wire.one.refuse(ExpectedError(ErrorCode.REVOKED, "It is out."))
    wire.carry()
    assert failure_of(wire.one) is ErrorCode.REVOKED
    assert failure_of(wire.two) is ErrorCode.REVOKED


def test_a_joiner_can_refuse_what_it_was_given() -> None:
    wire = Wire(inviter(fresh_offer()), joiner())
    wire.carry()
    event_of(wire.one)
    wire.one.welcome(welcome_of(DEVICES["A"]))
    wire.carry()
    event_of(wire.two)
    wire.two.refuse(ExpectedError(ErrorCode.DISK_FULL, "The disk is full."))
    wire.carry()
    assert failure_of(wire.one) is ErrorCode.DISK_FULL


def test_another_version_is_told() -> None:
    one, two = inviter(fresh_offer()), joiner()
    hello = pairing._encode(pairing.Hello(version=2, spake=two._hello.spake))
    one.receive_data(len(hello).to_bytes(4, "big") + hello, now_s=0.0)
    assert failure_of(one) is ErrorCode.DATA_TOO_NEW
    two.receive_data(one.data_to_send(), now_s=0.0)
    assert failure_of(two) is ErrorCode.DATA_TOO_NEW


def test_a_joiner_cannot_bring_in_a_key_that_is_not_its_own() -> None:
    one = inviter(fresh_offer())
    two = joiner()
    thief = DEVICES["H"]
    Liar = type("Liar", (), {"public": DEVICES["C"].public, "sign": thief.sign})  # noqa: N806 (a class)
    two._keys = Liar()
    Wire(one, two).carry()
    assert failure_of(one) is ErrorCode.BAD_MESSAGE


def test_a_long_message_before_the_proof_is_not_waited_for() -> None:
    one = inviter(fresh_offer())
    one.receive_data((pairing.MAX_PLAIN_BYTES + 1).to_bytes(4, "big"), now_s=0.0)
    assert failure_of(one) is ErrorCode.BAD_MESSAGE


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_change_on_the_way_ends_the_exchange_and_lets_nobody_in(data: st.DataObject) -> None:
    """A byte is changed somewhere; whatever happens, nobody is let in by it, or both were paired before it mattered."""
    one, two = inviter(fresh_offer()), joiner()
    position = data.draw(st.integers(0, 700))
    flip = data.draw(st.integers(1, 255))
    passed = 0
    events: list[pairing.Event] = []
    for _ in range(8):
        for sender, receiver in ((two, one), (one, two)):
            sent = bytearray(sender.data_to_send())
            if passed <= position < passed + len(sent):
                sent[position - passed] ^= flip
            passed += len(sent)
            receiver.receive_data(bytes(sent), now_s=0.0)
            while (event := receiver.next_event()) is not None:
                events.append(event)
                if isinstance(event, Asked):
                    one.welcome(welcome_of(DEVICES["A"]))
                if isinstance(event, Welcomed):
                    assert event.welcome == welcome_of(DEVICES["A"])
                    two.joined()
    for event in events:
        if isinstance(event, Asked):
            assert event.device == DEVICES["B"].public
    if position < passed:
        assert one.state is not State.PAIRED


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_noise_ends_the_exchange_in_order(noise: bytes, framed: bool) -> None:  # noqa: FBT001
    for machine in (inviter(fresh_offer()), joiner()):
        machine.receive_data(len(noise).to_bytes(4, "big") + noise if framed else noise, now_s=0.0)
        machine.connection_lost()
        assert failure_of(machine) in {ErrorCode.BAD_MESSAGE, ErrorCode.UNREACHABLE}


# Codes


def test_a_code_is_nine_digits_whatever_is_drawn() -> None:
    assert str(draw_code(lambda below: below - 1)) == "999-999-999"
    assert str(draw_code(lambda _below: 7)) == "000-000-007"
    assert "220" not in repr(CODE)


@pytest.mark.parametrize("text", ["417220935", " 417 220 935 ", "417-220-935", "417.220.935"])
def test_a_code_may_be_typed_in_any_grouping(text: str) -> None:
    assert parse_code(text) == (CODE, None)


@pytest.mark.parametrize("text", ["", "417", "41722093x", "4172209355", "hearthreel://pair/", "٤١٧٢٢٠٩٣٥"])
def test_what_is_no_code_is_told(text: str) -> None:
    with pytest.raises(ExpectedError) as caught:
        parse_code(text)
    assert caught.value.code is ErrorCode.WRONG_CODE


@pytest.mark.parametrize("address", [None, Address(host="10.0.0.7", port=4000), Address(host="fe80::1", port=1)])
def test_a_scanned_code_carries_the_address(address: Address | None) -> None:
    assert parse_code(code_address(CODE, address)) == (CODE, address)


def test_a_scanned_address_that_is_none_is_told() -> None:
    with pytest.raises(ExpectedError) as caught:
        parse_code("hearthreel://pair/417220935?at=nowhere")
    assert caught.value.code is ErrorCode.BAD_SETTING


def test_the_drawing_names_every_state_and_message() -> None:
    drawing = (pairing.__doc__ or "").partition("SPAKE2 lets")[0]
    for state in State:
        word = state.value.upper()
        assert word in drawing, word
    for message in (*msgspec.inspect.type_info(pairing.Plain).types, *msgspec.inspect.type_info(pairing.Inner).types):  # type: ignore[attr-defined]
        assert message.cls.__name__ in {*drawing.replace("(", " ").replace(":", " ").split(), "Sealed"}


def test_spake2_stays_the_same_across_versions_of_its_library() -> None:
    """Fixed entropy gives the messages that it gave when this was written, so two versions can still be paired."""
    from spake2 import SPAKE2_A, SPAKE2_B  # noqa: PLC0415 (only here)

    a = SPAKE2_A(b"220935", idA=b"a", idB=b"b", entropy_f=lambda size: bytes(size - 1) + b"\x01")
    b = SPAKE2_B(b"220935", idA=b"a", idB=b"b", entropy_f=lambda size: bytes(size - 1) + b"\x02")
    to_b, to_a = a.start(), b.start()
    assert a.finish(to_a) == b.finish(to_b)
    golden = Path(__file__).parent / "data" / "spake2.hex"
    assert hashlib.sha256(to_a + to_b).hexdigest() == golden.read_text().strip()
