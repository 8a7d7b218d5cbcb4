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

Invariants; tests bear their names (Q1, Q8 and Q9 are about several devices, Q4 is about payloads):

* Q2 a write with an old epoch, token or holder must change nothing: it raises ``StaleError``;
* Q3 a job that ``add_job`` returned must survive ``kill -9`` and power loss;
* Q5 attempts must be bounded, also when workers die hard; nothing may stay "processing" for ever, and a lost result
  must be made again;
* Q6 cancel and pause must win over progress, and must never destroy a published film;
* Q7 merge must be commutative, associative and idempotent for all rows, reachable or not.

Modules: ``rows`` (the values and their encoding), ``merge`` (two replicas of a row), ``targets`` (names of tasks and
what needs what), ``machine`` (derived states), ``leases`` and ``intent`` (the moves, pure), ``schedule`` (what next),
``store`` (the seam), ``row_store`` (the moves made durable) over a ``row_table``: ``memory_store`` or ``sqlite_store``.

A row is stored as one canonical JSON document. The columns beside it are facts for searching, computed again from the
rows in the same transaction as each change, so that they can be rebuilt at any time.

Rejected: one last-writer record for the intent (loses a Retry), tombstones that expire (bring deleted jobs back),
stored states (drift from the rows they repeat).
"""
