"""The main window: library, queue, devices and Trash, messages above them, and films dropped anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractItemModel, Qt, QUrl, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeySequence,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QMenu,
    QMessageBox,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.ui.controller import Controller
from app.ui.details import DetailsDialog
from app.ui.device_desk import DeviceDesk
from app.ui.device_presenters import DevicesPage
from app.ui.intake import path_of_url
from app.ui.library_view import LibraryView
from app.ui.notices import NoticeBoard, plain_label
from app.ui.panels import DropVeil, EmptyPage, Header, Sidebar
from app.ui.player_window import PlayerWindow
from app.ui.presenters import Detail, FilmAction, JobAction, Notice, Section
from app.ui.queue_view import QueueView, action_labels
from app.ui.theme import SPACE

_VIDEO_PATTERNS = " ".join(
    f"*.{ending}"
    for ending in (
        *("3gp", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg"),
        *("mts", "mxf", "ogv", "rm", "rmvb", "ts", "vob", "webm", "wmv"),
    )
)


class MainWindow(QMainWindow):
    """Shows what the controller knows and hands it what is wanted."""

    closing = Signal()

    def __init__(self, controller: Controller, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.players: dict[str, PlayerWindow] = {}
        self._closes_now = False
        self.setWindowTitle("Hearthreel")
        self.setAcceptDrops(True)
        self.resize(1120, 720)
        self.setMinimumSize(640, 440)
        self._build()
        self._build_menus()
        self._connect()
        self.show_section(Section.LIBRARY)
        self.setFocus()

    # what it is made of

    def _build(self) -> None:
        self.sidebar = Sidebar()
        self.header = Header()
        self.notices = NoticeBoard()
        self.library = LibraryView(self._controller.library_model, self.tr("Library"))
        self.queue = QueueView(self._controller.queue_model)
        self.desk = DeviceDesk(self._controller.bridge, self._controller.wording, self)
        self.trash = LibraryView(self._controller.trash_model, self.tr("Trash"))
        self._loading = plain_label(self.tr("Starting…"), is_muted=True)
        self._loading.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty = self._build_empty_pages()
        self._no_match = EmptyPage("film", self.tr("No film has that name"), self.tr("Try fewer or other words."))
        self.pages = QStackedWidget()
        views = (self.library, self.queue, self.desk.view, self.trash)
        for page in (self._loading, *views, *self._empty.values(), self._no_match):
            self.pages.addWidget(page)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(3 * SPACE, 2 * SPACE, 2 * SPACE, 0)
        column.setSpacing(2 * SPACE)
        column.addWidget(self.header)
        column.addWidget(self.notices)
        column.addWidget(self.pages, 1)
        whole = QFrame()
        row = QHBoxLayout(whole)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.sidebar)
        row.addWidget(content, 1)
        self.setCentralWidget(whole)
        self._summary = QLabel()
        self.statusBar().addWidget(self._summary)
        self.statusBar().setSizeGripEnabled(False)
        self._veil = DropVeil(self)

    def _build_empty_pages(self) -> dict[Section, EmptyPage]:
        library = EmptyPage(
            "drop",
            self.tr("Drop your films here"),
            self.tr(
                "Hearthreel prepares them for smooth playback and keeps them encrypted.\n"
                "Your original files are never changed."
            ),
        )
        files = QPushButton(self.tr("Choose files…"))
        folder = QPushButton(self.tr("Choose a folder…"))
        files.clicked.connect(self.choose_files)
        folder.clicked.connect(self.choose_folder)
        library.add_buttons(files, folder)
        return {
            Section.LIBRARY: library,
            Section.QUEUE: EmptyPage(
                "queue", self.tr("Nothing to do"), self.tr("Films that you add are prepared here, one after the other.")
            ),
            Section.TRASH: EmptyPage(
                "trash", self.tr("The Trash is empty"), self.tr("Films you remove are kept here for 30 days.")
            ),
        }

    def _build_menus(self) -> None:
        bar = self.menuBar()
        file = bar.addMenu(self.tr("&File"))
        self._entry(file, self.tr("&Add films…"), self.choose_files, QKeySequence.StandardKey.Open)
        self._entry(file, self.tr("Add a &folder…"), self.choose_folder, "Ctrl+Shift+O")
        file.addSeparator()
        self._entry(file, self.tr("&Quit"), self.close, QKeySequence.StandardKey.Quit)
        film = bar.addMenu(self.tr("Fi&lm"))
        self._film_entries = {
            FilmAction.PLAY: self._film_entry(film, self.tr("&Play"), FilmAction.PLAY, "Ctrl+Return"),
            FilmAction.EXPORT: self._film_entry(film, self.tr("&Export…"), FilmAction.EXPORT, "Ctrl+E"),
            FilmAction.DETAILS: self._film_entry(film, self.tr("Show &details"), FilmAction.DETAILS, "Ctrl+I"),
            FilmAction.TRASH: self._film_entry(film, self.tr("Move to &Trash"), FilmAction.TRASH, ""),
            FilmAction.RESTORE: self._film_entry(film, self.tr("&Restore"), FilmAction.RESTORE, ""),
        }
        film.aboutToShow.connect(self._allow_film_entries)
        film.aboutToHide.connect(self._allow_all_film_entries)  # shortcuts of disabled entries would be dead
        self._build_job_menu(bar.addMenu(self.tr("&Job")))
        devices = bar.addMenu(self.tr("&Devices"))
        self._entry(devices, self.tr("&Add a device…"), self.desk.add_device, "")
        self._entry(devices, self.tr("&Join with a code…"), self.desk.join, "")
        self._entry(devices, self.tr("Show the 24 &words…"), self.desk.show_words, "")
        view = bar.addMenu(self.tr("&View"))
        for number, section in enumerate(Section, start=1):
            name = self.sidebar.buttons[section].text()
            self._entry(view, name, lambda section=section: self.show_section(section), f"Ctrl+{number}")  # type: ignore[misc]
        view.addSeparator()
        self._entry(view, self.tr("&Find"), self._find, QKeySequence.StandardKey.Find)

    def _build_job_menu(self, menu: QMenu) -> None:
        keys = {JobAction.PAUSE: "Ctrl+P", JobAction.RESUME: "Ctrl+Shift+P", JobAction.RETRY: "Ctrl+R"}
        for action, label in action_labels(self.queue).items():
            self._entry(
                menu,
                label,
                lambda action=action: self.queue.list.request(action),  # type: ignore[misc]
                keys.get(action, ""),
            )

    def _entry(
        self, menu: QMenu, text: str, act: Callable[[], object], keys: str | QKeySequence.StandardKey
    ) -> QAction:
        entry = QAction(text, self)
        if keys:
            entry.setShortcut(QKeySequence(keys))
        entry.triggered.connect(lambda _checked=False: act())
        menu.addAction(entry)
        return entry

    def _film_entry(self, menu: QMenu, text: str, wish: FilmAction, keys: str) -> QAction:
        return self._entry(menu, text, lambda: self._wish_for_chosen_film(wish), keys)

    def _connect(self) -> None:
        controller = self._controller
        controller.told.connect(self._on_told)
        controller.untold.connect(self.notices.take)
        controller.queue_changed.connect(self._on_queue)
        controller.library_changed.connect(self._show_page)
        controller.details_ready.connect(self._show_details)
        self.notices.acted.connect(controller.act_on_notice)
        self.sidebar.chosen.connect(lambda section: self.show_section(Section(section)))
        self.header.add.clicked.connect(self.choose_files)
        self.header.hide_finished.toggled.connect(controller.hide_finished)
        self.header.empty.clicked.connect(self._confirm_empty_trash)
        self.header.add_device.clicked.connect(self.desk.add_device)
        self.header.join.clicked.connect(self.desk.join)
        self.desk.watch.changed.connect(self._on_devices)
        self.header.search.textChanged.connect(controller.search)
        self.library.wanted.connect(self._on_film_wish)
        self.trash.wanted.connect(self._on_film_wish)
        self.queue.list.wanted.connect(self._on_job_wish)
        self.queue.list.play_wanted.connect(self.play)
        self.queue.list.details_wanted.connect(controller.show_job_details)

    # sections

    def show_section(self, section: Section) -> None:
        """Go to ``section``."""
        self._section = section
        self.sidebar.show_chosen(section)
        self.header.show_section(section, self.sidebar.buttons[section].text())
        self._show_page()

    def _show_page(self) -> None:
        self.pages.setCurrentWidget(self._page())
        self.header.empty.setEnabled(self._controller.trash_model.rowCount() > 0)
        trashed = self._controller.trash_model.rowCount()
        self.sidebar.buttons[Section.TRASH].setAccessibleName(
            self._controller.wording.count(trashed, "Trash, {n} film", "Trash, {n} films")
        )

    def _page(self) -> QWidget:
        if self._section == Section.DEVICES:
            return self.desk.view  # it asks for what it shows once it is seen
        if self._section not in self._controller.loaded:
            return self._loading
        places: dict[Section, tuple[QWidget, QAbstractItemModel]] = {
            Section.LIBRARY: (self.library, self._controller.library_model),
            Section.QUEUE: (self.queue, self._controller.queue_model),
            Section.TRASH: (self.trash, self._controller.trash_model),
        }
        view, model = places[self._section]
        if model.rowCount() > 0:
            return view
        if self._section == Section.LIBRARY and self._controller.film_count > 0:
            return self._no_match
        return self._empty[self._section]

    def _on_queue(self) -> None:
        queue = self._controller.queue
        spoken = self._controller.wording.count(queue.unfinished, "{n} unfinished", "{n} unfinished")
        self.sidebar.buttons[Section.QUEUE].count(queue.unfinished, is_alarm=queue.failed > 0, spoken=spoken)
        self._summary.setText(queue.summary())
        self._show_page()

    def _on_devices(self, page: DevicesPage) -> None:
        self.header.add_device.setEnabled(page.can_add)

    def _on_told(self, notice: Notice) -> None:
        self.notices.put(notice)

    def _find(self) -> None:
        self.show_section(Section.LIBRARY)
        self.header.search.setFocus()
        self.header.search.selectAll()

    # adding

    def choose_files(self) -> None:
        """Let the person choose files; the window goes on meanwhile."""
        dialog = QFileDialog(self, self.tr("Add films"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setNameFilters([self.tr("Videos") + f" ({_VIDEO_PATTERNS})", self.tr("All files") + " (*)"])
        self._choose(dialog)

    def choose_folder(self) -> None:
        """Let the person choose a folder."""
        dialog = QFileDialog(self, self.tr("Add a folder"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        self._choose(dialog)

    def _choose(self, dialog: QFileDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.urlsSelected.connect(self.add_urls)
        dialog.open()

    def add_urls(self, urls: Sequence[QUrl]) -> None:
        """Add local files and folders; what is not on this machine is refused in words."""
        paths = [(url, path_of_url(url)) for url in urls]
        reason = self.tr("Only files on this machine can be added; download it first.")
        self._controller.intake.add(
            [path for _url, path in paths if path is not None],
            [(url.toDisplayString(), reason) for url, path in paths if path is None],
        )

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self._veil.setGeometry(self.rect())
            self._veil.raise_()
            self._veil.show()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        del event
        self._veil.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self._veil.hide()
        event.setDropAction(Qt.DropAction.CopyAction)  # never move: the person's file stays where it is
        event.accept()
        self.add_urls(event.mimeData().urls())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._veil.setGeometry(self.rect())

    # films

    def play(self, media_id: str) -> None:
        """Play a film, or bring its window to the front."""
        player = self.players.get(media_id)
        if player is None:
            title = self._controller.film_title(media_id)
            player = PlayerWindow(self._controller.bridge, media_id, title, self._controller.wording)
            player.closed.connect(self._player_closed)
            self.players[media_id] = player
        player.show()
        player.raise_()
        player.activateWindow()

    def _player_closed(self, media_id: str) -> None:
        self.players.pop(media_id, None)

    def _on_job_wish(self, job_ids: tuple[str, ...], action: JobAction) -> None:
        question = self._controller.loss_of(job_ids, action)
        if question:
            label = action_labels(self.queue)[action]
            self._ask(question, label, lambda: self._controller.change_jobs(job_ids, action))
        else:
            self._controller.change_jobs(job_ids, action)

    def _on_film_wish(self, media_id: str, wish: FilmAction) -> None:
        controller = self._controller
        match wish:
            case FilmAction.PLAY:
                self.play(media_id)
            case FilmAction.EXPORT:
                self._choose_export(media_id)
            case FilmAction.DETAILS:
                controller.show_film_details(media_id)
            case FilmAction.TRASH:
                controller.trash_film(media_id)
            case FilmAction.RESTORE:
                controller.restore_film(media_id)
            case FilmAction.DELETE:
                self._confirm_delete(media_id)

    def _chosen_film(self) -> tuple[str, frozenset[FilmAction]]:
        if self._section == Section.QUEUE:
            rows = self.queue.list.chosen_rows()
            return (
                (rows[0].media_id, frozenset({FilmAction.PLAY})) if rows and rows[0].is_playable else ("", frozenset())
            )
        row = (self.library if self._section == Section.LIBRARY else self.trash).current_row()
        return (row.key, frozenset(row.actions)) if row is not None else ("", frozenset())

    def _wish_for_chosen_film(self, wish: FilmAction) -> None:
        media_id, allowed = self._chosen_film()
        if wish in allowed:
            self._on_film_wish(media_id, wish)

    def _allow_film_entries(self) -> None:
        _media_id, allowed = self._chosen_film()
        for wish, entry in self._film_entries.items():
            entry.setEnabled(wish in allowed)

    def _allow_all_film_entries(self) -> None:
        for entry in self._film_entries.values():
            entry.setEnabled(True)

    def _choose_export(self, media_id: str) -> None:
        dialog = QFileDialog(self, self.tr("Export film"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(self.tr("MP4 video") + " (*.mp4)")
        dialog.setDefaultSuffix("mp4")
        title = self._controller.film_title(media_id)
        dialog.selectFile("".join("_" if letter in '/\\:*?"<>|' else letter for letter in title) or "film")
        dialog.fileSelected.connect(lambda path: self._controller.export_film(media_id, os.fsencode(path)))
        dialog.open()

    def _show_details(self, heading: str, details: Sequence[Detail]) -> None:
        DetailsDialog(heading, details, self).show()

    # questions

    def _confirm_delete(self, media_id: str) -> None:
        title = self._controller.film_title(media_id)
        text = self._controller.wording.say("Delete “{title}” now? This cannot be undone.", title=title)
        self._ask(text, self.tr("Delete"), lambda: self._controller.delete_film(media_id))

    def _confirm_empty_trash(self) -> None:
        text = self.tr("Delete everything in the Trash? This cannot be undone. Your original files are not touched.")
        self._ask(text, self.tr("Empty Trash"), self._controller.empty_trash)

    def _ask(self, text: str, yes: str, act: Callable[[], object]) -> None:
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Question)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setWindowTitle("Hearthreel")
        box.setText(text)
        agree = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        agree.clicked.connect(lambda _checked=False: act())
        box.open()

    def closeEvent(self, event: QCloseEvent) -> None:
        unsent = self._controller.intake.unsent
        if unsent and not self._closes_now:
            event.ignore()
            text = self._controller.wording.count(
                unsent,
                "One film has not been added to the queue yet. Close anyway?",
                "{n} films have not been added to the queue yet. Close anyway?",
            )
            self._ask(text, self.tr("Close"), self._close_now)
            return
        self.desk.close_dialogs()
        for player in tuple(self.players.values()):
            player.close()
        super().closeEvent(event)
        self.closing.emit()

    def _close_now(self) -> None:
        self._closes_now = True
        self.close()
