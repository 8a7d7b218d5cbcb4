"""The command line, for people and for scripts.

``--data-dir`` and ``--json`` may stand before or after the command. Exit codes: 0 done, 1 failed, 2 usage.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click
import msgspec

import app
from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.core.paths import DataDir, default_data_dir
from app.demo import PlayedFilm, PlayedStream, has_screen, make_sample_film, play_headless
from app.engine import api
from app.engine.folders import expand_paths
from app.engine.host import EngineHost, open_engine
from app.storage.secret_store import FILE, SECRETS_VARIABLE
from app.storage.source import display_path
from app.sync.words import WORD_COUNT
from app.terminal import Terminal, device_cells, film_cells, format_bytes, format_seconds, job_cells, job_detail

FINAL_STATES = {"done", "error", "cancelled"}
_NOBODY_WORKS = "Nothing works on it now: open the app, or run “hearthreel worker” (with worker.enabled on)."
_INTERRUPTED = 130
_WORDS_ASKED = 3
_MOST_TYPED = 4096


class Context:
    """What all commands share."""

    def __init__(self) -> None:
        self.data_dir: Path | None = None
        self.as_json = False
        self.show_window: Callable[..., int] | None = None

    @property
    def data(self) -> DataDir:
        """The data directory that was chosen."""
        return DataDir(root=(self.data_dir or default_data_dir()).absolute())

    @property
    def terminal(self) -> Terminal:
        """Where to print."""
        return Terminal(as_json=self.as_json)


class FailedError(Exception):
    """Ends a command with exit code 1 after everything was said."""


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value:
            setattr(context.find_root().ensure_object(Context), name, value)
        return value

    return keep


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that may stand everywhere."""
    command = click.option(
        "--json", "as_json", is_flag=True, expose_value=False, callback=_store("as_json"), help="Print JSON."
    )(command)
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        expose_value=False,
        callback=_store("data_dir"),
        help="Use this data directory (else HEARTHREEL_DATA_DIR, else the system's usual place).",
    )(command)


def run(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an async command into one that ends with the right exit code and says what went wrong."""

    def runner(*args: Any, **kwargs: Any) -> None:
        context = click.get_current_context().find_root().ensure_object(Context)
        try:
            asyncio.run(_until_interrupted(command(context, *args, **kwargs)))
        except ExpectedError as error:
            context.terminal.failure(error.code, error.message)
            sys.exit(1)
        except FailedError:
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)

    return update_wrapper(runner, command)


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work``; a request to end (Ctrl-C, SIGTERM) cancels it, and it cleans up."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers on its loop
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(app.__version__, prog_name="hearthreel")
@click.option("--tray", is_flag=True, help="Start in the tray.")
@common
@click.pass_context
def cli(context: click.Context, tray: bool) -> None:  # noqa: FBT001 (click passes flags)
    """Hearthreel: a private screening room on the machines you already own.

    Without a command it opens the app.
    """
    if context.invoked_subcommand is None:
        shared = context.find_root().ensure_object(Context)
        if shared.show_window is None:
            raise click.UsageError("This build has no window; name a command.")
        try:
            sys.exit(shared.show_window(shared.data, tray=tray))
        except ExpectedError as error:
            shared.terminal.failure(error.code, error.message)
            sys.exit(1)


# Adding and jobs


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option("--wait", is_flag=True, help="Wait until the films are done, showing progress.")
@click.option("--profile", help="How to transcode: default or passthrough.")
@common
@run
async def add(context: Context, paths: tuple[str, ...], *, wait: bool, profile: str | None) -> None:
    """Add films: files, and folders with everything in them."""
    terminal = context.terminal
    _check_profile(profile)
    async with open_engine(context.data, work=wait, lasting=wait) as engine:
        found = list(expand_paths([os.fsencode(path) for path in paths]))
        results = [await engine.call(api.AddPath(path=path, profile=profile)) for path in found]
        if not results:
            raise ExpectedError(ErrorCode.NOT_FOUND, "There is no film in that folder.")
        for result in results:
            _say_added(terminal, result)
        status = await engine.call(api.GetStatus())
        if not status.working and any(result.job_id for result in results):
            terminal.note(_NOBODY_WORKS)
        if wait:
            waiting = [result.job_id for result in results if result.job_id is not None]
            jobs = await _wait_for(engine, waiting, terminal)
            results = [_as_finished(result, jobs) for result in results]
        for path, result in zip(found, results, strict=True):
            terminal.result(_added_json(path, result))
        if any(result.error is not None or (wait and result.state != "done") for result in results):
            raise FailedError


def _check_profile(profile: str | None) -> None:
    if profile not in {None, "default", "passthrough"}:
        raise click.BadParameter("there are default and passthrough", param_hint="--profile")


def _say_added(terminal: Terminal, result: api.AddResult) -> None:
    if result.error is not None:
        terminal.failure(result.error.code, f"{result.path}: {result.error.message}")
    elif not terminal.as_json:
        what = "is there already" if result.already else "added"
        terminal.result(
            None, f"{result.path}: {what}, job {(result.job_id or '')[:12]}, film {(result.media_id or '')[:12]}"
        )


def _as_finished(result: api.AddResult, jobs: dict[str, api.JobSnapshot]) -> api.AddResult:
    if result.job_id is None:
        return result
    job = jobs.get(result.job_id)
    if job is None:
        gone = ErrorInfo(code=ErrorCode.CANCELLED, message="The job was removed while it was waited for.")
        return msgspec.structs.replace(result, state="cancelled", error=gone)
    return msgspec.structs.replace(result, state=job.state, error=job.error)


def _added_json(path: bytes, result: api.AddResult) -> dict[str, Any]:
    """Return what scripts get: the path as it is (what is no text in it, replaced), not as it is shown to people."""
    fields = {name: getattr(result, name) for name in ("job_id", "media_id", "state", "error")}
    fields = {"path": os.fsdecode(path).encode(errors="replace").decode(), **fields}
    return {**fields, "already": True} if result.already else fields


async def _wait_for(engine: EngineHost, job_ids: Sequence[str], terminal: Terminal) -> dict[str, api.JobSnapshot]:
    """Show progress until all jobs have come to an end; return how each stands, without those that were removed."""
    jobs: dict[str, api.JobSnapshot] = {}
    wanted = set(job_ids)
    if not wanted:
        return jobs
    is_first = True
    trouble: str | None = None
    with terminal.job_progress() as bars:
        async for event in engine.events():
            trouble = _say_trouble(terminal, event.status, trouble)
            shown = [job for job in event.jobs if job.id in wanted]
            if is_first:  # it holds a page of the queue, and others of our jobs may be further down
                known = {job.id for job in shown}
                found = [await _find_job(engine, job_id) for job_id in sorted(wanted - known)]
                shown += [job for job in found if job is not None]
                wanted = {job.id for job in shown}
                is_first = False
            for job in shown:
                jobs[job.id] = job
                bars.show(job)
            wanted -= set(event.gone)
            if all(jobs[job_id].state in FINAL_STATES for job_id in wanted):
                break
    return {job_id: jobs[job_id] for job_id in wanted}


async def _find_job(engine: EngineHost, job_id: str) -> api.JobSnapshot | None:
    try:
        return await engine.call(api.GetJob(job_id=job_id))
    except ExpectedError as error:
        if error.code != ErrorCode.NO_SUCH_ID:
            raise
        return None


def _say_trouble(terminal: Terminal, status: api.EngineStatus | None, said: str | None) -> str | None:
    """Say what holds all work up, once; return what stands said now."""
    if status is None:
        return said
    if status.trouble is None:
        if said is not None:
            terminal.note("Work goes on.")
        return None
    if status.trouble.code != said:
        terminal.failure(
            status.trouble.code, f"{status.trouble.message} Waiting until then; Ctrl-C leaves the job queued."
        )
    return status.trouble.code


@cli.command()
@common
@run
async def jobs(context: Context) -> None:
    """List jobs in the order of adding."""
    async with open_engine(context.data, work=False) as engine:
        rows = await engine.call(api.ListJobs())
    context.terminal.table(rows, ("Id", "Title", "State", "Done", ""), job_cells, "There are no jobs; add a film.")


@cli.group()
def job() -> None:
    """Look at and steer one job."""


@job.command("show")
@click.argument("job_id")
@common
@run
async def job_show(context: Context, job_id: str) -> None:
    """Show a job with its tasks."""
    async with open_engine(context.data, work=False) as engine:
        _say_job(context.terminal, await engine.call(api.GetJob(job_id=job_id)))


def _say_job(terminal: Terminal, one: api.JobSnapshot) -> None:
    lines = [f"{one.title}  ({one.id[:12]})", job_detail(one)]
    lines += [f"warning: {text}" for text in one.warnings]
    lines += [f"  {task.state:<18} {task.target}" for task in one.tasks]
    terminal.result(one, "\n".join(lines))


def _job_command(action: str, about: str) -> None:
    @job.command(action, help=about)
    @click.argument("job_id")
    @common
    @run
    async def change(context: Context, job_id: str) -> None:
        async with open_engine(context.data, work=False) as engine:
            _say_job(context.terminal, await engine.call(api.ChangeJob(job_id=job_id, action=action)))


for _action, _about in (
    ("pause", "Pause a job; its children freeze at once."),
    ("resume", "Let a paused job go on."),
    ("cancel", "Give a job up; nothing of it stays."),
    ("retry", "Try a failed or cancelled job again."),
    ("remove", "Remove a job; a finished film goes to the Trash."),
):
    _job_command(_action, _about)


@job.command("priority")
@click.argument("job_id")
@click.argument("priority", type=click.IntRange(-1000, 1000))
@common
@run
async def job_priority(context: Context, job_id: str, priority: int) -> None:
    """Say how urgent a job is: -1000 to 1000, higher goes first."""
    async with open_engine(context.data, work=False) as engine:
        _say_job(context.terminal, await engine.call(api.SetPriority(job_id=job_id, priority=priority)))


@job.command("wait")
@click.argument("job_id")
@common
@run
async def job_wait(context: Context, job_id: str) -> None:
    """Wait until a job has come to an end."""
    async with open_engine(context.data, work=True, lasting=True) as engine:
        one = await engine.call(api.GetJob(job_id=job_id))
        await _wait_for(engine, [one.id], context.terminal)
        one = await engine.call(api.GetJob(job_id=one.id))
        _say_job(context.terminal, one)
        if one.state != "done":
            raise FailedError


# Library


@cli.command()
@common
@run
async def library(context: Context) -> None:
    """List films, newest first."""
    async with open_engine(context.data, work=False) as engine:
        rows = await engine.call(api.ListLibrary())
    columns = ("Id", "Title", "State", "Length", "Size", "Qualities", "Sound")
    context.terminal.table(rows, columns, film_cells, "The library is empty; add a film.")


@cli.command()
@click.argument("media")
@common
@run
async def show(context: Context, media: str) -> None:
    """Show a film."""
    async with open_engine(context.data, work=False) as engine:
        _say_film(context.terminal, await engine.call(api.GetFilm(media_id=media)))


def _say_film(terminal: Terminal, film: api.FilmSnapshot) -> None:
    lines = [
        f"{film.title}  ({film.media_id[:12]})",
        f"{film.state}, {format_seconds(film.duration_s)}, {format_bytes(film.size_bytes)}",
        *(f"  picture {one.name}: {one.width}x{one.height} {one.codecs} ({one.kind})" for one in film.renditions),
        *(f"  sound {one.name}: {one.label}" for one in film.audio),
        *(f"  text {one.name}: {one.label}" for one in film.text),
        *(
            f"  chapter {number}: {format_seconds(one.start_s)}  {one.title}".rstrip()
            for number, one in enumerate(film.chapters, 1)
        ),
        *(f"warning: {text}" for text in film.warnings),
    ]
    terminal.result(film, "\n".join(lines))


@cli.command()
@click.argument("media")
@click.option("--now", is_flag=True, help="Delete it now instead of putting it into the Trash.")
@common
@run
async def remove(context: Context, media: str, *, now: bool) -> None:
    """Put a film into the Trash."""
    async with open_engine(context.data, work=False) as engine:
        film = await engine.call(api.RemoveFilm(media_id=media, now=now))
    word = "deleted" if now or film.state == "making" else "in the Trash for 30 days"
    context.terminal.result(film, f"{film.title}: {word}")


@cli.group()
def trash() -> None:
    """Look into the Trash, restore, empty it."""


@trash.command("list")
@common
@run
async def trash_list(context: Context) -> None:
    """List what is in the Trash."""
    async with open_engine(context.data, work=False) as engine:
        rows = await engine.call(api.ListTrash())
    columns = ("Id", "Title", "State", "Length", "Size", "Qualities", "Sound")
    context.terminal.table(rows, columns, film_cells, "The Trash is empty.")


@trash.command("restore")
@click.argument("media")
@common
@run
async def trash_restore(context: Context, media: str) -> None:
    """Take a film out of the Trash."""
    async with open_engine(context.data, work=False) as engine:
        _say_film(context.terminal, await engine.call(api.RestoreFilm(media_id=media)))


@trash.command("empty")
@common
@run
async def trash_empty(context: Context) -> None:
    """Delete what is in the Trash."""
    async with open_engine(context.data, work=False) as engine:
        count = await engine.call(api.EmptyTrash())
    context.terminal.result({"deleted": count}, f"{count} films deleted")


@cli.command()
@click.argument("media")
@common
@run
async def serve(context: Context, media: str) -> None:
    """Serve a film to players on this computer until interrupted."""
    async with open_engine(context.data, work=True) as engine:
        player = await engine.call(api.OpenPlayer(media_id=media))
        addresses = {"master": player.master, "auto": player.auto}
        context.terminal.result(addresses, f"master  {player.master}\nauto    {player.auto}")
        sys.stdout.flush()
        await _stay(engine)


@cli.command()
@click.option("--host", default="", help="Listen at this address only.  [default: all]")
@click.option("--port", default=45111, type=click.IntRange(0, 65535), show_default=True, help="0 picks one.")
@click.option("--certificate", type=click.Path(path_type=Path, dir_okay=False), help="For wss://, in PEM form.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="The certificate's key.")
@click.option("--behind-proxy", is_flag=True, help="Believe X-Forwarded-For; only behind a proxy of yours.")
@common
@run
async def rendezvous(
    context: Context, *, host: str, port: int, certificate: Path | None, key: Path | None, behind_proxy: bool
) -> None:
    """Let devices in different networks find each other here.

    Passes sealed messages on and keeps nothing; whoever hosts one learns network addresses and times, not who or what.
    """
    from app.sync.rendezvous import RendezvousServer, server_tls  # noqa: PLC0415 (no other command needs it)

    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key belong together.")
    tls = server_tls(certificate, key) if certificate is not None and key is not None else None
    server = RendezvousServer(behind_proxy=behind_proxy)
    await server.start(host=host or None, port=port, tls=tls)
    context.terminal.result({"port": server.port}, f"Listening on port {server.port}. End with Ctrl-C.")
    sys.stdout.flush()
    try:
        with contextlib.suppress(asyncio.CancelledError):  # the interrupt is how this command ends well
            await asyncio.Event().wait()
    finally:
        await server.close()


@cli.command()
@click.argument("media")
@click.argument("output", type=click.Path(path_type=str, dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace a file of that name.")
@common
@run
async def export(context: Context, media: str, output: str, *, overwrite: bool) -> None:
    """Write the best quality with all sound and text tracks to an MP4 file."""
    terminal = context.terminal
    path = os.fsencode(os.path.abspath(output))  # noqa: PTH100, ASYNC240 (reads no disk)
    shown = display_path(os.fsencode(output))
    async with open_engine(context.data, work=False) as engine:
        with terminal.share_progress("Exporting") as progress:
            size = await engine.call(api.ExportFilm(media_id=media, path=path, overwrite=overwrite), progress=progress)
    terminal.result({"path": shown, "size_bytes": size}, f"{shown}: {format_bytes(size)}")


# Devices


@cli.group(invoke_without_command=True)
@common
@run
async def devices(context: Context) -> None:
    """List your devices, shut one out, and care for the 24 words that are above all of them."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    async with open_engine(context.data, work=False) as engine:
        space = await engine.call(api.ListDevices())
    columns = ("Id", "Name", "", "State", "Link", "Added", "By")
    context.terminal.table(space.devices, columns, device_cells, "This device belongs to no space; give the words.")
    _remind_of_words(context.terminal, space)


def _remind_of_words(terminal: Terminal, space: api.SpaceSnapshot) -> None:
    if space.words_pending:
        terminal.note(
            "The 24 words that are above all your devices are not confirmed yet. Write them down "
            "(“hearthreel devices words”), then “hearthreel devices confirm”."
        )


@devices.command("revoke")
@click.argument("device_id")
@click.option("--words", "by_words", is_flag=True, help="As the owner, with the 24 words; no device can undo that.")
@common
@run
async def devices_revoke(context: Context, device_id: str, *, by_words: bool) -> None:
    """Shut a device out, everywhere and for ever, and seal new films with a key that it does not have."""
    words = _read_words() if by_words else None
    async with open_engine(context.data, work=False) as engine:
        revoked = await engine.call(api.RevokeDevice(device_id=device_id, words=words))
    context.terminal.result(revoked, f"{revoked.device.name} is shut out.\n{revoked.still_holds}")


@devices.command("words")
@common
@run
async def devices_words(context: Context) -> None:
    """Show the 24 words, until they are confirmed. Whoever has them has everything."""
    async with open_engine(context.data, work=False) as engine:
        shown = await engine.call(api.ShowWords())
    lines = [
        "   ".join(f"{row + column:2} {shown.words[row + column - 1]:<9}" for column in range(1, 5)).rstrip()
        for row in range(0, len(shown.words), 4)
    ]
    context.terminal.result(shown, "\n".join(lines))
    context.terminal.note(
        "Write them down on paper, and keep it where no thief of your devices looks; then “hearthreel devices confirm”."
    )


@devices.command("confirm")
@common
@run
async def devices_confirm(context: Context) -> None:
    """Show that the 24 words are written down; they are then deleted from this device.

    Asks for three of them; from a pipe it reads all 24.
    """
    if sys.stdin.isatty():
        numbers = sorted(secrets.SystemRandom().sample(range(1, WORD_COUNT + 1), _WORDS_ASKED))
        typed = {number: click.prompt(f"Word {number}", type=str, err=True) for number in numbers}
    else:
        typed = dict(enumerate(_read_words().split(), start=1))
    async with open_engine(context.data, work=False) as engine:
        await engine.call(api.ConfirmWords(words=typed))
    context.terminal.result(
        {"confirmed": True}, "Confirmed, and deleted from this device. The paper is the only place that has them now."
    )


@devices.command("restore")
@common
@run
async def devices_restore(context: Context) -> None:
    """Make this device yours with the 24 words alone, without another device."""
    words = _read_words()
    async with open_engine(context.data, work=False) as engine:
        space = await engine.call(api.RestoreOwner(words=words))
    members = sum(one.state == "member" for one in space.devices)
    context.terminal.result(
        {"restored": True, "owner": space.owner, "devices": members},
        "This device is yours. It finds the films of your other devices when it meets them.",
    )


def _read_words() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("The 24 words", type=str, err=True))
    return sys.stdin.read(_MOST_TYPED)


@cli.command()
@click.argument("code", required=False)
@click.option("--at", metavar="HOST:PORT", help="Where the device that shows the code listens; else it is searched.")
@click.option("--listen", "host", default="", metavar="HOST", help="Show a code and listen on this address only.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Show a code and listen on this port.")
@common
@run
async def pair(context: Context, code: str | None, *, at: str | None, host: str, port: int) -> None:
    """Let another device in by showing a code, or join with the CODE that another device shows."""
    async with open_engine(context.data, work=False) as engine:
        if code is None:
            paired = await _show_code(context.terminal, engine, host, port)
            text = f"{paired.name} is one of your {paired.devices} devices now."
        else:
            paired = await engine.call(api.JoinSpace(code=code, at=at))
            text = f"Paired with {paired.name}; this device is one of {paired.devices} now."
        context.terminal.result({"paired": paired}, text)
        if code is None:
            _remind_of_words(context.terminal, await engine.call(api.ListDevices()))


async def _show_code(terminal: Terminal, engine: EngineHost, host: str, port: int) -> api.PairedSnapshot:
    shown = await engine.call(api.OpenPairing(host=host, port=port))
    terminal.result(shown, f"Code: {shown.code}")
    sys.stdout.flush()
    if not terminal.as_json:
        terminal.qr_code(shown.link)
        where = "" if shown.found_by_code else f" --at {shown.addresses[0]}"
        terminal.note(
            f"On the other device, within {shown.valid_s // 60} minutes:  hearthreel pair {shown.code}{where}\n"
            f"If it does not find this one, add  --at {'  or  --at '.join(shown.addresses)}"
        )
    return await engine.call(api.AwaitPairing(code=shown.code), progress=lambda _share, what: terminal.note(what))


# The engine


@cli.command()
@click.option("--once", is_flag=True, help="End when nothing is left that this device can do.")
@common
@run
async def worker(context: Context, *, once: bool) -> None:
    """Work without a window."""
    async with open_engine(context.data, work=True, lasting=True) as engine:
        context.terminal.note(
            "Working. End with Ctrl-C." if engine.is_host else "Another Hearthreel works here already."
        )
        if not once:
            await _stay(engine)
            return
        async for _event in engine.events():
            status = await engine.call(api.GetStatus())
            if status.idle:
                return


async def _stay(engine: EngineHost) -> None:
    """Stay until the interrupt, which is how such a command ends well.

    Listening is what makes a lasting client take over when the engine ends, and any other one fail.
    """
    try:
        async for _event in engine.events():
            pass
    except asyncio.CancelledError:
        return


@cli.command()
@click.argument("key", required=False)
@click.argument("value", required=False)
@common
@run
async def config(context: Context, key: str | None, value: str | None) -> None:
    """Show settings, one setting, or change it."""
    async with open_engine(context.data, work=False) as engine:
        if key is not None and value is not None:
            settings = await engine.call(api.SetConfig(key=key, value=value))
        else:
            settings = await engine.call(api.GetConfig())
    if key is not None and key not in settings:
        raise ExpectedError(ErrorCode.BAD_SETTING, f"There is no setting “{key}”; there are {', '.join(settings)}.")
    chosen = {key: settings[key]} if key is not None else settings
    context.terminal.result(chosen, "\n".join(f"{name} = {_shown(one)}" for name, one in chosen.items()))


def _shown(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


@cli.command()
@click.option("--repair", is_flag=True, help="Set damaged shards and stray files aside.")
@common
@run
async def verify(context: Context, *, repair: bool) -> None:
    """Read and check everything in the vault."""
    terminal = context.terminal
    async with open_engine(context.data, work=False) as engine:
        with terminal.share_progress("Checking") as progress:
            report = await engine.call(api.VerifyVault(repair=repair), progress=progress)
    lines = [f"{report.shards} shards, {format_bytes(report.size_bytes)}"]
    for word, names in (("damaged", report.damaged), ("missing", report.missing), ("stray", report.stray)):
        lines += [f"{word}: {name}" for name in names]
    lines += [f"affected: {film.title} (job {film.job_id[:12]})" for film in report.affected]
    lines += [f"set aside: {name}" for name in report.repaired]
    terminal.result(report, "\n".join(lines))
    if not report.clean:
        if not repair:
            terminal.note("Run “hearthreel verify --repair”, then retry the jobs of affected films.")
        raise FailedError


@cli.command()
@common
@run
async def doctor(context: Context) -> None:
    """Show what this installation can do."""
    async with open_engine(context.data, work=False) as engine:
        report = await engine.call(api.RunDoctor())
    lines = [
        f"hearthreel {report.version}",
        f"data in {report.data_dir}",
        f"disk: {format_bytes(report.disk_free_bytes)} free, vault {format_bytes(report.vault_bytes)}",
        f"database: {report.database}",
        f"device {report.device}; its secret key lies in {report.secrets}",
        *(f"encoder {name}: {state}" for name, state in report.encoders.items()),
        *(f"{name} {number}" for name, number in report.versions.items()),
    ]
    context.terminal.result(report, "\n".join(lines))


@cli.command()
@click.argument("file", required=False, type=click.Path(path_type=str))
@click.option("--headless", is_flag=True, help="Play without a window even where there is a screen.")
@common
def demo(file: str | None, *, headless: bool) -> None:
    """Add a film (or one that it makes itself) to a library of its own and play it."""
    context = click.get_current_context().find_root().ensure_object(Context)
    if context.data_dir is None:
        context.data_dir = Path(".demo")
        os.environ.setdefault(SECRETS_VARIABLE, FILE)  # a throw-away device has no business in the user's keyring
    window = None if headless or not has_screen() else context.show_window
    media_id = _run_demo(file, window is None)
    if window is not None and media_id:
        sys.exit(window(context.data, play=media_id))


def _run_demo(file: str | None, headless: bool) -> str:  # noqa: FBT001
    found: list[str] = []

    @run
    async def go(context: Context) -> None:
        found.append(await _demo(context, file, headless=headless))

    go()
    return found[0] if found else ""


async def _demo(context: Context, file: str | None, *, headless: bool) -> str:
    """Add and transcode the film; without a window, play it and say what was verified."""
    terminal = context.terminal
    context.data.root.mkdir(parents=True, exist_ok=True)
    if file is None and not terminal.as_json:
        terminal.note("Making a short film of our own …")
    path = Path(file) if file is not None else await make_sample_film(context.data.root / "Rolling hills.mp4")
    async with open_engine(context.data, work=True) as engine:
        added = await engine.call(api.AddPath(path=os.fsencode(path)))
        if added.error is not None:
            raise ExpectedError(ErrorCode(added.error.code), f"{path}: {added.error.message}")
        job_id, media_id = added.job_id or "", added.media_id or ""
        finished = await _wait_for(engine, [job_id], terminal)
        one = finished[job_id]
        if one.state != "done":
            error = one.error or ErrorInfo(code=ErrorCode.CANCELLED, message="The demo's job was cancelled.")
            raise ExpectedError(ErrorCode(error.code), error.message)
        if headless:
            _say_played(terminal, await play_headless(engine, media_id))
    return media_id


def _played(one: PlayedStream) -> str:
    return f"{one.name}: {one.frames} frames, {one.detail}, {one.duration_s:.2f} s"


def _say_played(terminal: Terminal, film: PlayedFilm) -> None:
    lines = [
        f"Played {film.url}",
        f"duration {film.duration_s:.2f} s",
        *(
            f"rendition {one.name}: {one.frames} pictures of {one.detail}, {one.duration_s:.2f} s"
            for one in film.renditions
        ),
        *(f"track {one.name}: {one.frames} sound frames, {one.detail}, {one.duration_s:.2f} s" for one in film.tracks),
        "Every segment came through the gateway and was decoded without an error.",
    ]
    terminal.result(film, "\n".join(lines))
