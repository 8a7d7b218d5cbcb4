"""Jobs and tasks: what the user asked for, and who does which piece of it.

A *job* row holds what was asked and the owner's intent; a *task* row holds who may do one piece, how earlier tries
ended, and the result. What is shown of them is never stored: ``machine`` derives it from the rows.

A task::

    available        --claim-->    leased             no earlier lease of it ended without success
    available        --claim-->    fallback_started   an earlier one did: its end says why, and who held it
    leased           --complete--> completed
    leased           --end-->      available          freed, or a try is left
    leased           --end-->      failed             permanent, or the last try
    fallback_started --complete--> completed
    fallback_started --end-->      available
    fallback_started --end-->      failed
    completed        --void-->     available          the result was lost
    available        --cancel-->   cancelled
    leased           --cancel-->   cancelled
    fallback_started --cancel-->   cancelled
    completed        --cancel-->   cancelled          its outcome is of a cancelled round; a finished film still counts
    failed           --cancel-->   cancelled
    cancelled        --retry-->    available
    failed           --retry-->    available

A job::

    queued           --claim-->    processing
    processing       --end-->      queued
    processing       --end-->      error              a task that the film needs has failed
    processing       --complete--> queued             the next task waits for its turn
    processing       --complete--> done               publish/full
    queued           --pause-->    paused
    processing       --pause-->    paused
    paused           --resume-->   queued
    paused           --resume-->   processing         its lease was only frozen
    paused           --end-->      error
    paused           --complete--> done               the last write was on its way already
    queued           --cancel-->   cancelled
    processing       --cancel-->   cancelled
    paused           --cancel-->   cancelled
    error            --cancel-->   cancelled
    cancelled        --retry-->    queued
    error            --retry-->    queued
    error            --retry-->    processing         another task of it was still running
    paused           --retry-->    queued
    paused           --retry-->    processing
    done             --void-->     queued             the film was lost and is made again
    done             --void-->     paused             it was paused when its last write was on its way

Several devices, each with all the rows::

    claim ─► announce ─► settle ─► still held? ─► work ─► beat … ─► complete
                                       │                    │
                                       └── give up          └── not held any more ─► give up: "freed", it lived
    others: beat not seen for 45 s of awake time ─► reclaim: "died" ─► (the holder lives) "freed" ─► 90 s, 180 s …

Invariants; tests bear their names (Q4 is about payloads, which are not the queue's):

* Q1 after replicas have exchanged everything, all must show the same single accepted result for each task;
* Q2 a write with an old epoch, token or holder must change nothing: it raises ``StaleError``;
* Q3 a job that ``add_job`` returned must survive ``kill -9`` and power loss;
* Q5 attempts must be bounded, also when workers die hard; nothing may stay "processing" for ever, and a lost result
  must be made again;
* Q6 cancel and pause must win over progress, and must never destroy a published film;
* Q7 merge must be commutative, associative and idempotent for all rows, reachable or not;
* Q8 a device that was away, wiped or restored must not stop the others, and nothing that they wrote may be skipped;
* Q9 while all devices hear each other, with round trips under the settle time, a task must run once.

Rules beyond the obvious, each found to be needed by the simulation (``tests/simulation``):

* a lease that lost to a better claim is freed by its holder too: a third device may call it dead later;
* a lease whose epoch is ``void`` is over: of two claims of one epoch, one was completed and its result lost;
* tasks are forgotten when a film is finished, but full films and words that one was lost never are; and who hears that
  a film was lost tells again what it has of it, since others may have forgotten that;
* of two jobs of one content a finished one goes first, then the one with the lower id; the other waits.

Modules: ``rows`` (the values and their encoding), ``merge`` (two replicas of a row), ``targets`` (names of tasks and
what needs what), ``machine`` (derived states), ``leases`` and ``intent`` (the moves, pure), ``schedule`` (what next),
``store`` (the seam), ``row_store`` (the moves made durable) over a ``row_table``: ``memory_store`` or ``sqlite_store``;
``fact_writer`` (what a row makes of others), ``feed`` and ``replica`` (rows from and to other devices), ``observing``
(who is silent), ``settling`` (when work may start), ``losses`` (which results are gone), ``benching`` (who had better
rest).

A row is stored as one canonical JSON document. The columns beside it are facts for searching, computed again from the
rows in the same transaction as each change, so that they can be rebuilt at any time.

Rejected: one last-writer record for the intent (loses a Retry), tombstones that expire (bring deleted jobs back),
stored states (drift from the rows they repeat).
"""
