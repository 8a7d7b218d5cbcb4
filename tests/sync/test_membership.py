"""Who belongs to a space: rules by example, and as properties over histories of quarrelling devices."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.sync.cycles import first_cycles
from app.sync.membership import add_device, judge, overrule, revoke_device, who_is_member
from app.sync.statements import Add, Grant, Revoke, Statement, make_statement
from tests.sync.people import AT_MS, DEVICES, IDS, NAMES, OWNER, SPACE, key_of, signer_of, state

History = list[Statement]


def add(known: History, who: str, whom: str) -> Statement:
    return add_device(
        known, signer_of(who), space=SPACE, public=DEVICES[whom].public, name=f"Device {whom}", now_ms=AT_MS
    )


def revoke(known: History, who: str, whom: str) -> Statement:
    return revoke_device(known, signer_of(who), space=SPACE, public=key_of(whom), now_ms=AT_MS)


def members(statements: Iterable[Statement]) -> str:
    """Return the letters of the devices that belong to the space."""
    ids = who_is_member(statements, SPACE)
    assert ids <= set(IDS.values())
    return "".join(name for name in NAMES if IDS[name] in ids)


def chain_of(*pairs: str) -> History:
    """Return a history in which each pair, such as "AB", says that the first adds the second; "o" is the owner."""
    known: History = []
    for pair in pairs:
        known.append(add(known, "owner" if pair[0] == "o" else pair[0], pair[1]))
    return known


def test_without_statements_nobody_is_a_member() -> None:
    assert members([]) == ""


def test_members_are_those_whom_the_owner_and_members_add() -> None:
    assert members(chain_of("oA", "AB", "BC")) == "ABC"


def test_a_device_must_not_be_added_by_anybody_but_the_owner_and_who_belongs_to_the_space() -> None:
    assert members(chain_of("oA", "CD", "DC", "EE")) == "A"


def test_who_is_revoked_is_out_and_what_it_did_before_counts() -> None:
    known = chain_of("oA", "AB", "BC")
    known.append(revoke(known, "A", "B"))
    assert members(known) == "AC"


def test_a_pairing_made_meanwhile_is_void() -> None:
    known = chain_of("oA", "AB", "BC")
    meanwhile = add(known, "B", "D")
    further = add([*known, meanwhile], "D", "E")
    known.append(revoke(known, "A", "B"))
    assert members([*known, meanwhile, further]) == "AC"


def test_a_revocation_made_after_ones_own_is_void() -> None:
    known = chain_of("oA", "AB", "AC")
    known.append(revoke(known, "A", "B"))
    assert members([*known, revoke(known, "B", "C")]) == "AC"


def test_two_that_revoke_each_other_are_both_out() -> None:
    known = chain_of("oA", "AB", "AC")
    mutual = [revoke(known, "A", "B"), revoke(known, "B", "A")]
    assert members(known + mutual) == "C"


def test_a_revoked_thief_drags_out_only_who_revoked_it() -> None:
    known = chain_of("oA", "AB", "AC", "AD", "AE")
    judged = [*known, revoke(known, "A", "B")]
    theft = list(known)
    for whom in "ACDE":
        theft.append(revoke(theft, "B", whom))
    assert members(judged + theft) == "CDE"


def test_a_puppet_of_a_thief_can_do_no_more_than_the_thief() -> None:
    known = chain_of("oA", "AB", "AC", "AD")
    judged = [*known, revoke(known, "A", "B")]
    theft = [*known, add(known, "B", "E")]
    for whom in "ACD":
        theft.append(revoke(theft, "E", whom))
    assert members(judged + theft) == "CD"


def test_a_third_device_can_end_a_quarrel() -> None:
    known = chain_of("oA", "AB", "AC")
    quarrel = [*known, revoke(known, "A", "B"), revoke(known, "B", "A")]
    assert members([*quarrel, revoke(known, "C", "B")]) == "AC"


def test_the_words_alone_overrule() -> None:
    known = chain_of("oA", "AB")
    quarrel = [*known, revoke(known, "A", "B"), revoke(known, "B", "A")]
    assert members(quarrel) == ""
    undone = overrule(quarrel, OWNER, space=SPACE, public=key_of("A"), now_ms=AT_MS)
    assert members([*quarrel, *undone]) == "A"
    again = [*quarrel, *undone]
    again.append(revoke(quarrel, "B", "A"))
    assert members(again) == "A", "whatever B states now"


def test_what_the_words_have_revoked_only_a_new_key_undoes() -> None:
    known = chain_of("oA", "AB")
    known.append(revoke(known, "owner", "B"))
    assert members(known) == "A"
    known.append(add(known, "A", "B"))
    assert members(known) == "A"
    with pytest.raises(ExpectedError) as caught:
        overrule(known, OWNER, space=SPACE, public=key_of("B"), now_ms=AT_MS)
    assert caught.value.code is ErrorCode.REVOKED


def test_no_device_revokes_the_owner() -> None:
    known = chain_of("oA", "AB")
    known.append(state(known, "A", Revoke(device=SPACE, last=(), at_ms=AT_MS)))
    known.append(add(known, "owner", "C"))
    assert members(known) == "ABC"


def test_a_device_can_leave() -> None:
    known = chain_of("oA", "AB", "BC")
    known.append(revoke(known, "B", "B"))
    assert members(known) == "AC"


def test_a_restored_device_that_states_anew_breaks_nothing() -> None:
    known = chain_of("oA", "AB")
    before = list(known)
    known.append(add(known, "A", "C"))
    known.append(add(before, "A", "D"))  # A was restored from a backup and has forgotten C
    assert members(known) == "ABCD"
    known.append(revoke(known, "B", "A"))
    assert members(known) == "BCD", "both ends of its chain count"


def test_a_statement_counts_only_with_all_before_it() -> None:
    known = chain_of("oA", "AB", "AC", "AD")
    assert members([one for one in known if one.id != known[2].id]) == "AB"


def test_a_key_of_a_revoked_device_is_not_used_for_new_content() -> None:
    known = chain_of("oA", "AB")

    def grant(key: str, generation: int, *to: str) -> None:
        for one in to:
            body = Grant(device=key_of(one), key=key * 32, generation=generation, sealed="00" * 80)
            known.append(state(known, "A", body))

    grant("1", 1, "A", "B")
    grant("2", 1, "A", "B")
    key = judge(known, SPACE).vault_key
    assert key is not None
    assert (key.id, key.sealed_to(key_of("C"))) == ("2" * 32, None)
    known.append(revoke(known, "A", "B"))
    assert judge(known, SPACE).vault_key is None
    grant("0", 2, "A")
    key = judge(known, SPACE).vault_key
    assert key is not None
    assert (key.id, key.sealed_to(key_of("A"))) == ("0" * 32, bytes(80))


def test_a_key_that_a_revoked_device_made_is_not_used_though_others_have_passed_it_on() -> None:
    """B makes a key after the last statement that counts, and A, who does not know better, gives it to C."""
    known = chain_of("oA", "AB", "AC")

    def granted(who: str, to: str, key: str) -> Statement:
        body = Grant(device=key_of(to), key=key * 32, generation=int(key), sealed="00" * 80)
        return state(known, who, body)

    known.append(granted("A", "A", "1"))
    judged = revoke(known, "owner", "B")
    known.append(granted("B", "A", "2"))
    known.append(granted("A", "C", "2"))
    before = judge(known, SPACE).vault_key
    assert before is not None
    assert before.id == "2" * 32
    after = judge([*known, judged], SPACE).vault_key
    assert after is not None
    assert after.id == "1" * 32


def test_membership_says_when_and_by_whom() -> None:
    known = chain_of("oA", "AB")
    known.append(revoke(known, "A", "B"))
    membership = judge(known, SPACE)
    a, b = (membership.of(key_of(name)) for name in "AB")
    assert a is not None
    assert b is not None
    assert (a.name, a.added_by, a.is_member) == ("Device A", "", True)
    assert (b.added_by, b.revoked_by, b.revoked_at_ms, b.is_member) == (IDS["A"], IDS["A"], AT_MS, False)
    assert membership.admits(DEVICES["A"].public)
    assert not membership.admits(DEVICES["B"].public)
    assert not membership.admits(DEVICES["C"].public)
    assert membership.revoked == {IDS["B"]}


# Properties

ACTORS = ("owner", *NAMES)
Step = tuple[str, str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "add", "revoke", "meet", "fork")),
        st.sampled_from(ACTORS),
        st.sampled_from(NAMES),
        st.integers(0, 5),
    ),
    max_size=24,
)
HISTORIES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lived(steps: list[Step]) -> History:
    """Return all that was stated in a history in which each knows what it has stated, and whom it met.

    A fork is a statement after an earlier one of one's own, as a restored or a lying device makes it.
    """
    known: dict[str, dict[str, Statement]] = {name: {} for name in ACTORS}
    first = add([], "owner", "A")
    for views in known.values():
        views[first.id] = first
    for kind, who, whom, number in steps:
        view = list(known[who].values())
        own = [one for one in view if one.signer == signer_of(who).public.hex()]
        if kind == "meet":
            known[who].update(known[whom])
            known[whom].update(known[who])
            continue
        if kind == "add":
            made = add(view, who, whom)
        elif kind == "revoke":
            made = revoke(view, who, whom)
        else:
            body = Add(device=key_of(whom), name="Fork", at_ms=number)
            made = make_statement(signer_of(who), body, space=SPACE, after=own[number] if number < len(own) else None)
        known[who][made.id] = made
    return list({name: one for views in known.values() for name, one in views.items()}.values())


@HISTORIES
@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_statements_arrive_does_not_matter(steps: list[Step], shuffling: random.Random) -> None:
    known = lived(steps)
    shuffled = list(known)
    shuffling.shuffle(shuffled)
    assert judge(shuffled + shuffled[:3], SPACE) == judge(known, SPACE)


@HISTORIES
@given(STEPS)
def test_every_member_is_added_by_somebody_whose_word_counts(steps: list[Step]) -> None:
    """From the owner to each member there is a chain of additions that count, and nobody's revocation is ignored."""
    known = lived(steps)
    membership = judge(known, SPACE)
    counted = [one for one in known if one.id in membership.counted]
    reached, grew = {SPACE}, True
    while grew:
        more = {one.body.device for one in counted if isinstance(one.body, Add) and one.signer in reached}
        grew = not more <= reached
        reached |= more
    assert {one.public for one in membership.members} <= reached
    gone = {one.body.device for one in counted if isinstance(one.body, Revoke)}
    assert gone.isdisjoint(one.public for one in membership.members)


@HISTORIES
@given(STEPS, st.sampled_from(NAMES))
def test_who_is_revoked_is_out_whatever_else_is_known(steps: list[Step], whom: str) -> None:
    known = lived(steps)
    known.append(revoke(known, "owner", whom))
    assert whom not in members(known)
    puppets = [*known, add(known, whom, "A"), add(known, whom, "H")]
    assert members(puppets) == members(known), "nothing that it states later changes anything"


@HISTORIES
@given(STEPS)
def test_strangers_change_nothing(steps: list[Step]) -> None:
    known = lived([step for step in steps if "H" not in step[1:3]])
    noise = [add(known, "H", "G"), revoke(known, "H", "A"), add(known, "H", "H")]
    assert judge([*known, *noise], SPACE) == judge(known, SPACE)


@HISTORIES
@given(STEPS)
def test_a_member_that_revokes_another_gets_it_out(steps: list[Step]) -> None:
    """Nothing that the revoked one said before, or says later, keeps it in."""
    known = lived(steps)
    inside = members(known)
    for who, whom in pairwise(inside):
        judged = [*known, revoke(known, who, whom)]
        assert whom not in members(judged)
        assert whom not in members([*judged, revoke(known, whom, who)])


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7))))
def test_first_cycles_are_those_that_nothing_else_leads_to(edges: dict[int, set[int]]) -> None:
    graph = {str(node): {str(to) for to in edges.get(node, set())} for node in range(8)}
    reach = {node: {node} for node in graph}
    for _ in graph:
        for node, tos in graph.items():
            reach[node] |= {far for to in tos for far in reach[to]}
    led_to = {node: {other for other in graph if node in reach[other]} for node in graph}
    expected = {node for node in graph if led_to[node] <= reach[node]}
    assert first_cycles(graph) == expected
