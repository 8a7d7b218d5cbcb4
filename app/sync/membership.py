"""Who belongs to a space: a pure function of the set of signed statements, in whatever order they came.

::

    owner ──add──► A ──add──► B ──add──► C
                   └─revoke(B, last: b4)─► B is out; what B signed after b4 is void: its b5 = add(C), so C is out too

Rules, in the order of their strength:

1. What the owner signs (whoever has the 24 words) always counts; nothing that a device signs makes it void.
2. What a device signs counts if a statement that counts adds the device, unless it is void.
3. A statement is void if a revocation of its signer that counts does not name it, or a later one, as the last.
4. Who is named by a revocation that counts is out, for ever, under this key. A device that shall come back makes a new
   key and is paired again.
5. Revocations that make each other void (two devices revoke each other, each not knowing of the other) all count: both
   devices are out. What then depends on either is decided by rules 1 to 3. The owner's words end such a quarrel: an
   owner's revocation of one device makes void what that device signed against the other.

So a thief with a device that was revoked can drag out the device that revoked it, by claiming to have revoked it first;
it cannot touch the others, and the words undo it. A statement counts only with all statements before it in its chain.
A chain may have several ends (a device restored from a backup); all count alike.

Rule 5 makes the rules complete: 2 and 3 alone leave cycles open. ``_settle`` computes the well-founded model of rules 1
to 3 (a lower and an upper bound that approach each other), lets the revocations of the first open cycles count, and
goes on until nothing is open. Rejected: the earlier time wins (clocks lie); the older device wins (the thief may have
the oldest); a majority (two devices have none).

Invariants; tests bear their names:

* the order in which statements arrive must not matter;
* a forged, replayed, truncated or foreign statement must never add anybody;
* a device must not be added by anybody but the owner and who belongs to the space;
* who is revoked must be out on every device that knows of it, whatever else is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import Signer
from app.sync.cycles import first_cycles
from app.sync.statements import (
    MAX_LAST,
    Add,
    Grant,
    Revoke,
    Statement,
    Unknown,
    chain_end,
    chain_ends,
    device_of,
    make_statement,
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one device stands to the space."""

    id: str
    public: str
    """Its public key in hex."""
    name: str
    added_at_ms: int
    added_by: str
    """The id of a device; empty for the owner's words."""
    revoked_at_ms: int | None = None
    revoked_by: str = ""
    """The id of a device; empty for the owner's words, or while it is not revoked."""

    @property
    def is_member(self) -> bool:
        """Whether it belongs to the space."""
        return self.revoked_at_ms is None


class GrantedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A vault key that devices were given."""

    id: str
    generation: int
    sealed: tuple[tuple[str, str], ...]
    """(public key of a device, the key sealed to it), one for each device that was given it."""
    is_clean: bool = True
    """Whether nobody who is out has ever had it, by any grant, void ones too."""

    def sealed_to(self, public: str) -> bytes | None:
        """Return the key as it was sealed to a device."""
        return next((bytes.fromhex(sealed) for device, sealed in self.sealed if device == public), None)


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of statements says."""

    space: str
    devices: tuple[Standing, ...]
    """All that ever belonged to the space by statements that count, in the order of their ids."""
    keys: tuple[GrantedKey, ...]
    """Vault keys, the one to use last."""
    counted: frozenset[str]
    """Ids of the statements that count."""

    def of(self, public: str) -> Standing | None:
        """Return how the device with this public key (hex) stands."""
        return next((one for one in self.devices if one.public == public), None)

    def admits(self, public: bytes) -> bool:
        """Return whether the device with this public key belongs to the space."""
        standing = self.of(public.hex())
        return standing is not None and standing.is_member

    @property
    def members(self) -> tuple[Standing, ...]:
        """The devices that belong to the space."""
        return tuple(one for one in self.devices if one.is_member)

    @property
    def revoked(self) -> frozenset[str]:
        """Ids of devices that belong to it no more."""
        return frozenset(one.id for one in self.devices if not one.is_member)

    @property
    def vault_key(self) -> GrantedKey | None:
        """The key for new content: the newest that nobody has who is out; None when there is none."""
        return next((key for key in reversed(self.keys) if key.is_clean), None)


def who_is_member(statements: Iterable[Statement], space: str) -> frozenset[str]:
    """Return the ids of the devices that belong to the space."""
    return frozenset(one.id for one in judge(statements, space).members)


def judge(statements: Iterable[Statement], space: str) -> Membership:
    """Return what the statements about ``space`` (the owner's public signing key in hex) say."""
    known = _whole_chains(one for one in statements if one.space == space)
    standing = _settle(known)
    counted = [known[one] for one in sorted(standing)]
    devices = tuple(sorted(_devices(counted), key=lambda one: one.id))
    members = {one.public for one in devices if one.is_member}
    outsiders = {one.body.device for one in known.values() if isinstance(one.body, Add)} - members
    return Membership(
        space=space,
        devices=devices,
        keys=_keys(counted, spoilt=_keys_of(outsiders, known.values())),
        counted=frozenset(standing),
    )


def found_space(
    statements: Collection[Statement], owner: Signer, *, device: bytes, name: str, now_ms: int
) -> Statement:
    """Return the owner's statement that a device belongs to the owner's space."""
    return add_device(statements, owner, space=owner.public.hex(), public=device, name=name, now_ms=now_ms)


def add_device(
    statements: Collection[Statement], signer: Signer, *, space: str, public: bytes, name: str, now_ms: int
) -> Statement:
    """Return the statement that ``public`` belongs to the space."""
    body = Add(device=public.hex(), name=name, at_ms=now_ms)
    return make_statement(signer, body, space=space, after=chain_end(statements, signer.public.hex()))


def revoke_device(
    statements: Collection[Statement], signer: Signer, *, space: str, public: str, now_ms: int
) -> Statement:
    """Return the statement that the device belongs to the space no more; what it has signed so far counts."""
    last = tuple(sorted(one.id for one in chain_ends(statements, public)[:MAX_LAST]))
    body = Revoke(device=public, last=last, at_ms=now_ms)
    return make_statement(signer, body, space=space, after=chain_end(statements, signer.public.hex()))


def overrule(
    statements: Collection[Statement], owner: Signer, *, space: str, public: str, now_ms: int
) -> tuple[Statement, ...]:
    """Return the owner's statements that undo what devices have stated against the device with this key.

    Each device that revoked it is revoked, from that statement on. Raises ``ExpectedError`` revoked when the owner
    revoked it: then only a new key helps.
    """
    known = {one.id: one for one in statements}
    counted = judge(known.values(), space).counted
    against = [known[one] for one in sorted(counted) if _revokes(known[one], public)]
    if any(one.is_owners for one in against):
        raise ExpectedError(ErrorCode.REVOKED, "This device was revoked with the owner's words; only a new key helps.")
    made: list[Statement] = []
    for one in sorted(against, key=lambda each: (each.signer, each.number)):
        if any(_revokes(earlier, one.signer) for earlier in made):
            continue
        body = Revoke(device=one.signer, last=(one.previous,) if one.previous else (), at_ms=now_ms)
        after = chain_end([*known.values(), *made], owner.public.hex())
        made.append(make_statement(owner, body, space=space, after=after))
    return tuple(made)


def _revokes(statement: Statement, public: str) -> bool:
    return isinstance(statement.body, Revoke) and statement.body.device == public


def _whole_chains(statements: Iterable[Statement]) -> dict[str, Statement]:
    """Return, by id, the statements all of whose predecessors are there."""
    whole: dict[str, Statement] = {}
    for one in sorted(statements, key=lambda each: each.number):
        before = whole.get(one.previous)
        if one.number == 1 or (before and before.signer == one.signer and before.number == one.number - 1):
            whole[one.id] = one
    return whole


class _Rules:
    """Rules 1 to 3 over a set of statements."""

    def __init__(self, known: Mapping[str, Statement]) -> None:
        self.known = known
        self._of_signer: dict[str, list[str]] = {}
        for one in known.values():
            self._of_signer.setdefault(one.signer, []).append(one.id)
        self._attacks = {one.id: self._attacked_by(one) for one in known.values() if isinstance(one.body, Revoke)}

    def _attacked_by(self, revocation: Statement) -> frozenset[str]:
        """Return what is void if this revocation counts."""
        body = revocation.body
        if not isinstance(body, Revoke):
            return frozenset()
        spared = {revocation.id}
        for last in body.last:
            one = self.known.get(last)
            while one is not None and one.signer == body.device and one.id not in spared:
                spared.add(one.id)
                one = self.known.get(one.previous)
        return frozenset(self._of_signer.get(body.device, ())) - spared

    def void(self, counted: Collection[str]) -> set[str]:
        """Return what is void if ``counted`` counts."""
        return set().union(*(self._attacks[one] for one in counted if one in self._attacks))

    def counting(self, assumed: Collection[str], decided: frozenset[str]) -> frozenset[str]:
        """Return what counts if the revocations among ``assumed`` do; ``decided`` counts in any case."""
        void = self.void(assumed) - decided
        found: set[str] = set(decided)
        admitted: set[str] = set()
        waiting = [one for one in self.known.values() if one.is_owners or one.id in decided]
        while waiting:
            one = waiting.pop()
            found.add(one.id)
            if isinstance(one.body, Add) and one.body.device not in admitted:
                admitted.add(one.body.device)
                mine = self._of_signer.get(one.body.device, ())
                waiting += [self.known[each] for each in mine if each not in void and each not in found]
        return frozenset(found)

    def open_graph(self, nodes: frozenset[str], sure: frozenset[str]) -> dict[str, set[str]]:
        """Return, for each open statement, the open ones that depend on it: what it attacks, and whom it alone adds."""
        added = {body.device for body in (self.known[one].body for one in sure) if isinstance(body, Add)}
        graph: dict[str, set[str]] = {}
        for one in nodes:
            body = self.known[one].body
            depends = set(self._attacks.get(one, ()))
            if isinstance(body, Add) and body.device not in added:
                depends.update(self._of_signer.get(body.device, ()))
            graph[one] = depends & nodes
        return graph


def _settle(known: Mapping[str, Statement]) -> frozenset[str]:
    """Return the ids of what counts."""
    rules = _Rules(known)
    decided: frozenset[str] = frozenset()
    while True:
        sure, possible = _bounds(rules, decided)
        nodes = frozenset(one for one in possible - sure if isinstance(known[one].body, (Add, Revoke)))
        if not nodes:
            return sure
        first = first_cycles(rules.open_graph(nodes, sure))
        chosen = {one for one in first if isinstance(known[one].body, Revoke)} - decided
        if not chosen:  # cannot be: an open cycle has a revocation; without this a mistake here would loop for ever
            return sure
        decided |= chosen


def _bounds(rules: _Rules, decided: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return what counts in any case, and what may count."""
    sure = decided
    while True:
        possible = rules.counting(sure, decided)
        surer = rules.counting(possible, decided)
        if surer == sure:
            return sure, possible
        sure = surer


def _devices(counted: list[Statement]) -> Iterable[Standing]:
    revocations: dict[str, Statement] = {}
    additions: dict[str, Statement] = {}
    for one in sorted(counted, key=_for_showing):
        match one.body:
            case Add():
                additions.setdefault(one.body.device, one)
            case Revoke():
                revocations.setdefault(one.body.device, one)
            case Grant() | Unknown():
                pass
    for public, added in additions.items():
        out = revocations.get(public)
        yield Standing(
            id=device_of(public),
            public=public,
            name=added.body.name if isinstance(added.body, Add) else "",
            added_at_ms=_moment(added),
            added_by="" if added.is_owners else device_of(added.signer),
            revoked_at_ms=_moment(out) if out else None,
            revoked_by="" if out is None or out.is_owners else device_of(out.signer),
        )


def _moment(statement: Statement) -> int:
    return statement.body.at_ms if isinstance(statement.body, (Add, Revoke)) else 0


def _for_showing(statement: Statement) -> tuple[int, str]:
    return _moment(statement), statement.id


def _keys_of(outsiders: Collection[str], statements: Iterable[Statement]) -> set[str]:
    """Return the ids of the vault keys that outsiders were given, or have given to others."""
    grants = [(one.signer, one.body) for one in statements if isinstance(one.body, Grant)]
    return {body.key for signer, body in grants if signer in outsiders or body.device in outsiders}


def _keys(counted: list[Statement], *, spoilt: Collection[str]) -> tuple[GrantedKey, ...]:
    generations: dict[str, int] = {}
    sealed: dict[str, dict[str, str]] = {}
    for one in counted:
        if isinstance(one.body, Grant):
            generations[one.body.key] = max(generations.get(one.body.key, 0), one.body.generation)
            sealed.setdefault(one.body.key, {}).setdefault(one.body.device, one.body.sealed)
    found = [
        GrantedKey(id=key, generation=generation, sealed=tuple(sorted(sealed[key].items())), is_clean=key not in spoilt)
        for key, generation in generations.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.generation, one.id)))
