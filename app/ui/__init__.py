"""The window: Qt, and nothing but.

::

    engine's loop (its own thread)              Qt's main thread
    ┌───────────────────────┐            ┌──────────────────────────────────────────────────┐
    │ EngineApi.events() ───┼─ queued ──▶│ bridge ─▶ controller ─▶ presenters ─▶ models ─▶ views │
    │ EngineApi.call()   ◀──┼─ commands ─│ bridge ◀─ controller ◀──────── intents ◀─────── views │
    └───────────────────────┘            └──────────────────────────────────────────────────┘

* ``bridge`` is the only place where the two threads meet; ``background`` lends threads to work that is not the engine's
  (walking folders, unpacking pictures).
* ``wording``, ``presenters``, ``device_presenters``, ``edits`` and ``seeking`` are pure: no Qt, values in and values
  out. Everything that is decided about texts, order, enabled actions and seeks is decided there.
* ``models`` adapt rows to Qt; ``library_view``, ``queue_view``, ``devices_view``, ``player_window``, ``notices`` and
  ``details`` draw and emit intents; ``controller`` turns intents into commands and replies into rows and notices.
* ``device_desk`` keeps the list of devices fresh while it is seen and opens the dialogs of ``device_dialogs``.
* ``theme``, ``icons``, ``qr_code`` and ``posters`` are how it looks.
* ``refcounts``, ``collector`` and ``interrupts`` keep Python and Qt from hurting each other; each says how it was seen.

Invariants, each with a test that bears its name:

* U1 the window must not wait for work: nothing on Qt's thread waits for a file, a reply or a lock of another thread;
* U2 what comes from another thread must be delivered on Qt's thread, in order, and not at all after the bridge closed;
* U3 texts from files must be shown as plain text, never as rich text, mnemonics or place holders;
* U4 a refusal must be shown in words and must not stop what comes after it;
* U5 an event must change only the rows that differ, so that selection, focus and scrolling stay where they are.
"""

from app.ui.refcounts import pin_singletons

pin_singletons()
