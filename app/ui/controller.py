"""Between the views and the engine: intents become commands, events and replies become rows and notices."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from app.core.clock import Clock, SystemClock
from app.core.errors import ErrorInfo
from app.engine.api import (
    Changed,
    ChangeJob,
    Command,
    EmptyTrash,
    EngineStatus,
    ExportFilm,
    FilmSnapshot,
    GetJob,
    JobSnapshot,
    ListLibrary,
    ListQueue,
    ListTrash,
    QueuePage,
    RemoveFilm,
    RestoreFilm,
)
from app.ui.background import Background
from app.ui.bridge import EngineBridge
from app.ui.intake import ExpandPaths, Intake, keep_paths
from app.ui.models import LibraryModel, QueueModel
from app.ui.posters import PosterShelf
from app.ui.presenters import (
    ADD_KEY,
    TROUBLE_KEY,
    AddTally,
    JobAction,
    LibraryBoard,
    Notice,
    QueueBoard,
    Section,
    Tone,
    changed_text,
    film_details,
    job_details,
    loss_text,
    present_job,
    present_status,
    present_tally,
)
from app.ui.wording import Wording, clean_line, format_percent

_ENGINE_KEY = "engine"


class _Refresher(QObject):
    """Asks for a list again whenever it may have changed, one question at a time."""

    def __init__(
        self,
        bridge: EngineBridge,
        command: Command[tuple[FilmSnapshot, ...]],
        on_reply: Callable[[tuple[FilmSnapshot, ...]], None],
        on_error: Callable[[ErrorInfo], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._command = command
        self._on_reply = on_reply
        self._on_error = on_error
        self._is_asking = False
        self._is_outdated = False

    def refresh(self) -> None:
        """Ask, or ask again once the question under way is answered."""
        if self._is_asking:
            self._is_outdated = True
            return
        self._is_asking = True
        self._is_outdated = False
        self._bridge.send(self._command, self._answered, self._failed)

    def _answered(self, films: tuple[FilmSnapshot, ...]) -> None:
        self._is_asking = False
        self._on_reply(films)
        self._ask_again()

    def _failed(self, info: ErrorInfo) -> None:
        self._is_asking = False
        self._on_error(info)
        self._ask_again()

    def _ask_again(self) -> None:
        if self._is_outdated:
            self.refresh()


class Controller(QObject):
    """What a window knows and can ask for."""

    told = Signal(object)
    """``Notice`` to show."""
    untold = Signal(str)
    """Key of a notice that is over."""
    queue_changed = Signal()
    library_changed = Signal()
    details_ready = Signal(str, object)
    """Heading, and a sequence of ``Detail``."""

    def __init__(
        self,
        bridge: EngineBridge,
        wording: Wording,
        *,
        expand_paths: ExpandPaths = keep_paths,
        clock: Clock | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.bridge = bridge
        self.wording = wording
        self.background = Background(parent=self)
        self.posters = PosterShelf(bridge, self.background, self)
        self.queue = QueueBoard(wording)
        self.queue_model = QueueModel(self)
        self.library_model = LibraryModel(self.posters, self)
        self.trash_model = LibraryModel(self.posters, self)
        self.intake = Intake(bridge, self.background, expand_paths, self)
        self.loaded: set[Section] = set()
        self._clock = clock or SystemClock()
        self._library = LibraryBoard(wording)
        self._trash = LibraryBoard(wording)
        self._search = ""
        self._with_finished = True
        self._is_asking_queue = False
        self._note_actions: dict[str, Callable[[], None]] = {}
        self._ask_library = _Refresher(bridge, ListLibrary(), self._library_came, self._say_refused, self)
        self._ask_trash = _Refresher(bridge, ListTrash(), self._trash_came, self._say_refused, self)
        bridge.changed.connect(self._on_changed)
        bridge.lost.connect(self._on_lost)
        self.intake.told.connect(self._on_tally)
        self.queue_model.more_wanted.connect(self._ask_queue)

    @property
    def film_count(self) -> int:
        """How many films the library holds, found by the search or not."""
        return len(self._library.films)

    def film_title(self, media_id: str) -> str:
        """Return a film's title, from the library or the queue; empty when it is not known."""
        film = self._library.films.get(media_id) or self._trash.films.get(media_id)
        if film is not None:
            return clean_line(film.title)
        titles = (job.title for job in self.queue.jobs.values() if job.media_id == media_id)
        return clean_line(next(titles, ""))

    def close(self) -> None:
        """Stop adding what has not been asked for yet, and let threads end."""
        self.intake.stop()
        self.background.close()

    # intents

    def search(self, text: str) -> None:
        """Show only films whose title contains all words of ``text``."""
        self._search = text
        self._show_library()

    def change_jobs(self, job_ids: Sequence[str], action: JobAction) -> None:
        """Ask for ``action`` on each job; what is refused is told once all are answered.

        A job that is done is its film: removing it puts the film in the Trash, where it can be had back.
        """
        if action == JobAction.REMOVE:
            done = [job_id for job_id in job_ids if self._is_done(job_id)]
            for job_id in done:
                self.trash_film(self.queue.jobs[job_id].media_id)
            job_ids = [job_id for job_id in job_ids if job_id not in done]
        failures: list[ErrorInfo] = []
        left = len(job_ids)

        def answered() -> None:
            nonlocal left
            left -= 1
            if left == 0 and failures:
                details = tuple(clean_line(info.message) for info in failures) if len(failures) > 1 else ()
                text = changed_text(action, failures, self.wording)
                self.told.emit(Notice(key="jobs", tone=Tone.ERROR, text=text, details=details))

        def changed(job: JobSnapshot) -> None:
            if action != JobAction.REMOVE and job.id in self.queue.jobs:
                self.queue.put(job)
                self._show_queue()
            answered()

        def refused(info: ErrorInfo) -> None:
            failures.append(info)
            answered()

        self.untold.emit("jobs")
        for job_id in job_ids:
            self.bridge.send(ChangeJob(job_id=job_id, action=action.value), changed, refused)

    def _is_done(self, job_id: str) -> bool:
        job = self.queue.jobs.get(job_id)
        return job is not None and job.state == "done"

    def hide_finished(self, hide: bool) -> None:  # noqa: FBT001 (a Qt slot)
        """Show only what is still to be done, or all."""
        self._with_finished = not hide
        self._show_queue()

    def loss_of(self, job_ids: Sequence[str], action: JobAction) -> str:
        """Return the question to ask before ``action`` throws work away; empty when it does not."""
        rows = [present_job(self.queue.jobs[job_id], self.wording) for job_id in job_ids if job_id in self.queue.jobs]
        return loss_text(rows, action, self.wording)

    def show_job_details(self, job_id: str) -> None:
        """Have the details of a job shown."""
        self.bridge.send(
            GetJob(job_id=job_id),
            lambda job: self.details_ready.emit(clean_line(job.title), job_details(job, self.wording)),
            self._say_refused,
        )

    def show_film_details(self, media_id: str) -> None:
        """Have the details of a film shown."""
        film = self._library.films.get(media_id) or self._trash.films.get(media_id)
        if film is not None:
            self.details_ready.emit(clean_line(film.title), film_details(film, self.wording))

    def trash_film(self, media_id: str) -> None:
        """Move a film to the Trash and offer to undo that."""

        def done(film: FilmSnapshot) -> None:
            self._offer(
                Notice(
                    key=f"trash {media_id}",
                    tone=Tone.QUIET,
                    text=self.wording.say("“{title}” is in the Trash.", title=clean_line(film.title)),
                    action=self.wording.say("Undo"),
                ),
                lambda: self.restore_film(media_id),
            )
            self._refresh_films()

        self.bridge.send(RemoveFilm(media_id=media_id), done, self._say_refused)

    def restore_film(self, media_id: str) -> None:
        """Take a film out of the Trash."""
        self.untold.emit(f"trash {media_id}")
        self.bridge.send(RestoreFilm(media_id=media_id), lambda _film: self._refresh_films(), self._say_refused)

    def delete_film(self, media_id: str) -> None:
        """Delete a film for good."""
        self.untold.emit(f"trash {media_id}")
        command = RemoveFilm(media_id=media_id, now=True)
        self.bridge.send(command, lambda _film: self._refresh_films(), self._say_refused)

    def empty_trash(self) -> None:
        """Delete for good what is in the Trash."""
        for media_id in self._trash.films:
            self.untold.emit(f"trash {media_id}")
        self.bridge.send(EmptyTrash(), lambda _count: self._refresh_films(), self._say_refused)

    def export_film(self, media_id: str, path: bytes) -> None:
        """Write a film to ``path``, which the person has agreed to overwrite."""
        key = f"export {media_id} {os.fsdecode(path)}"
        title = self.film_title(media_id)
        name = clean_line(os.path.basename(path).decode("utf-8", "replace"))  # noqa: PTH119 (bytes)

        def tell(share: float, _word: str = "") -> None:
            text = self.wording.say("Exporting “{title}”… {share}", title=title, share=format_percent(share))
            notice = Notice(
                key=key,
                tone=Tone.WORKING,
                text=text,
                progress=share,
                action=self.wording.say("Stop"),
                is_dismissible=False,
            )
            self._offer(notice, call.cancel)

        def done(_size_bytes: int) -> None:
            text = self.wording.say("“{title}” was exported to {name}.", title=title, name=name)
            self.told.emit(Notice(key=key, tone=Tone.DONE, text=text))

        def failed(info: ErrorInfo) -> None:
            self.told.emit(Notice(key=key, tone=Tone.ERROR, text=clean_line(info.message)))

        command = ExportFilm(media_id=media_id, path=path, overwrite=True)
        call = self.bridge.send(command, done, failed, tell)
        tell(0.0)

    def act_on_notice(self, key: str) -> None:
        """Do what the button of the notice ``key`` says."""
        action = self._note_actions.pop(key, None)
        if action is not None:
            action()

    # events and replies

    def _on_changed(self, changed: Changed, is_everything: bool) -> None:  # noqa: FBT001 (a Qt slot)
        if is_everything:
            self.loaded.add(Section.QUEUE)
            self.posters.forget_missing()
            self.untold.emit(_ENGINE_KEY)
        if changed.status is not None:
            self._on_status(changed.status)
        if is_everything or changed.jobs or changed.gone:
            self.queue.apply(changed, is_everything=is_everything)
            self._show_queue()
        if is_everything or changed.library:
            self._refresh_films()

    def _on_status(self, status: EngineStatus) -> None:
        notice = present_status(status, self.wording)
        if notice is None:
            self.untold.emit(TROUBLE_KEY)
        else:
            self.told.emit(notice)

    def _on_lost(self, info: ErrorInfo) -> None:
        text = self.wording.say("The engine does not answer; trying again…")
        details = (clean_line(info.message),) if info.message else ()
        self.told.emit(Notice(key=_ENGINE_KEY, tone=Tone.WARNING, text=text, details=details, is_dismissible=False))

    def _on_tally(self, tally: AddTally) -> None:
        notice = present_tally(tally, self.wording)
        if notice is None:
            self.untold.emit(ADD_KEY)
        else:
            self.told.emit(notice)

    def _library_came(self, films: tuple[FilmSnapshot, ...]) -> None:
        self.loaded.add(Section.LIBRARY)
        self._library.put_all(films)
        self._library.follow(self.queue.jobs.values())
        self._show_library()

    def _trash_came(self, films: tuple[FilmSnapshot, ...]) -> None:
        self.loaded.add(Section.TRASH)
        self._trash.put_all(films)
        self.trash_model.set_rows(self._trash.rows(now_ms=self._clock.wall_ms()))
        self.library_changed.emit()

    def _refresh_films(self) -> None:
        self._ask_library.refresh()
        self._ask_trash.refresh()

    def _ask_queue(self) -> None:
        """Ask for the page that follows what is known of the queue."""
        after = self.queue.more
        if self._is_asking_queue or after is None:
            return

        def came(page: QueuePage) -> None:
            self._is_asking_queue = False
            if self.queue.more == after:  # else everything came anew meanwhile
                self.queue.add_page(page)
            self._show_queue()

        def failed(info: ErrorInfo) -> None:
            self._is_asking_queue = False
            self._say_refused(info)

        self._is_asking_queue = True
        self.bridge.send(ListQueue(after=after), came, failed)

    def _show_queue(self) -> None:
        self.queue_model.has_more = self.queue.more is not None and self._with_finished
        if self.queue.lacks_unfinished:  # all of it counts; what is finished comes when somebody looks for it
            self._ask_queue()
        self.queue_model.set_rows(self.queue.rows(with_finished=self._with_finished))
        if self._library.follow(self.queue.jobs.values()):
            self._show_library()
        self.queue_changed.emit()

    def _show_library(self) -> None:
        self.library_model.set_rows(self._library.rows(now_ms=self._clock.wall_ms(), search=self._search))
        self.library_changed.emit()

    def _offer(self, notice: Notice, action: Callable[[], None]) -> None:
        self._note_actions[notice.key] = action
        self.told.emit(notice)

    def _say_refused(self, info: ErrorInfo) -> None:
        self.told.emit(Notice(key=f"refused {info.code}", tone=Tone.ERROR, text=clean_line(info.message)))
