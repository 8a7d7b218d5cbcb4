"""What there is to know about a film or a job, as plain text to read and copy."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QFrame, QScrollArea, QVBoxLayout, QWidget

from app.ui.notices import plain_label
from app.ui.presenters import Detail
from app.ui.theme import SPACE, scaled_font


class DetailsDialog(QDialog):
    """Shown beside the window, not in front of it."""

    def __init__(self, heading: str, details: Sequence[Detail], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setObjectName("details")
        self.setWindowTitle(self.tr("Details"))
        title = plain_label(heading)
        title.setFont(scaled_font(self.font(), 1.4))
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(3 * SPACE)
        form.setVerticalSpacing(SPACE)
        for detail in details:
            form.addRow(plain_label(detail.label, is_muted=True), plain_label(detail.value))
        inner = QWidget()
        inner.setLayout(form)
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setWidget(inner)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * SPACE, 3 * SPACE, 3 * SPACE, 2 * SPACE)
        column.setSpacing(2 * SPACE)
        column.addWidget(title)
        column.addWidget(area, 1)
        column.addWidget(buttons)
        self.resize(560, 460)
