"""Pure values of the film itself: what a source is, the plan of its renditions, and the finished film.

::

    SourceInfo + packet times ──plan──► Plan ──tasks──► bundles ──publish──► Film

All times are integers of 1/90000 s ("ticks") counted from the film's start, unless a name says otherwise. Everything
here is a frozen value with a canonical encoding (``app.core.encoding``); nothing does I/O and nothing reads a clock.

Invariants:

* borders must rise, start at 0 and end at the film's duration;
* chunks must cover all segments once, in order;
* every rendition must be in exactly one set.
"""
