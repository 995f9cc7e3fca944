"""The page in headless Chromium against the running stack."""

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.stacks import REPOSITORY, Stack

SCREENSHOTS = REPOSITORY / "docs" / "screenshots"
WIDTHS = (375, 768, 1440)
BOTH = "Research LangGraph streaming and compute 42 * 17"
DEADLINE_MS = 60_000

expect.set_options(timeout=DEADLINE_MS)


@asynccontextmanager
async def _visitor(browser: Browser, **options: Any) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1440, "height": 900}, **options)
    context.set_default_timeout(DEADLINE_MS)
    try:
        yield context
    finally:
        await context.close()


@pytest.fixture
async def page(browser: Browser, chat_stack: Stack) -> AsyncIterator[Page]:
    """The page with a new conversation. The test fails if a script failed or another host was asked."""
    hosts: set[str] = set()
    failures: list[str] = []
    async with _visitor(browser) as context:
        page = await context.new_page()
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on(
            "console",
            lambda message: failures.append(message.text) if "Content Security" in message.text else None,
        )
        await page.goto(f"{chat_stack.api_url}/chat")
        await expect(_field(page)).to_be_visible()
        yield page
    assert failures == []
    assert hosts == {urlsplit(chat_stack.api_url).netloc}


def _field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def _answers(page: Page) -> Locator:
    return page.get_by_role("article", name="Assistant")


async def _ask(page: Page, text: str) -> None:
    """Send a message; when it is shown, the page takes itself for running, for however short a time."""
    await _field(page).fill(text)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("article", name="You").filter(has_text=text).last).to_be_visible()


async def _settled(page: Page) -> None:
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def _numbers(page: Page) -> list[int]:
    """What the answer to "count to …" has counted so far."""
    text = await _answers(page).last.inner_text() if await _answers(page).count() else ""
    return [int(number) for number in re.findall(r"\b\d+\b", text.partition("Thought")[2] or text)]


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_MS / 1000
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.05)


async def _has_counted(page: Page, number: int) -> None:
    async def counted() -> bool:
        return max(await _numbers(page), default=0) >= number

    await _until(counted, f"counting to {number}")


async def test_conversation_with_both_sub_agents(page: Page) -> None:
    await _ask(page, BOTH)
    await expect(page.get_by_role("button", name=re.compile("researcher"))).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("math-whiz"))).to_be_visible()
    await _settled(page)
    await expect(_answers(page).last).to_contain_text("714")
    await expect(page.get_by_role("button", name=re.compile("math-whiz.*Done"))).to_be_visible()
    await expect(page.get_by_role("button", name="Thought").first).to_be_visible()

    await page.get_by_role("button", name=re.compile("math-whiz")).click()
    await expect(page.get_by_role("navigation", name="Where you are")).to_contain_text("math-whiz")
    await expect(page.get_by_role("region", name="Task")).to_contain_text("Compute 42 * 17")
    await page.get_by_role("button", name=re.compile("calculator.*Done")).click()
    await expect(page.locator(".tool-body")).to_contain_text("42 * 17")
    await expect(page.locator(".tool-body")).to_contain_text("714")
    await page.keyboard.press("Escape")
    await expect(_answers(page).last).to_contain_text("714")

    await _ask(page, "compute 5 * 5")
    await _settled(page)
    await expect(_answers(page).last).to_contain_text("25")


async def test_tokens_arrive_over_time(page: Page) -> None:
    await _ask(page, "count to 300")
    seen: set[int] = set()

    async def ended() -> bool:
        seen.add(len(await _numbers(page)))
        return await page.get_by_role("button", name="Send").count() > 0

    await _until(ended, "the end of the answer")
    assert await _numbers(page) == list(range(1, 301))
    assert len(seen) >= 5, f"the answer came in {len(seen)} pieces"


async def test_reload_in_mid_run_goes_on_where_it_was(page: Page) -> None:
    await _ask(page, "count to 200")
    await _has_counted(page, 5)
    before = len(await _numbers(page))
    await page.reload()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await _has_counted(page, before)
    await _settled(page)
    assert await _numbers(page) == list(range(1, 201))


async def test_two_tabs_show_the_same(page: Page) -> None:
    await _ask(page, "hello")
    await _settled(page)
    other = await page.context.new_page()
    await other.goto(page.url)
    await expect(_answers(other)).to_have_count(1)
    await _ask(page, "count to 150")
    await expect(other.get_by_text("count to 150", exact=True)).to_be_visible()
    await _has_counted(other, 3)
    await _settled(page)
    await _settled(other)
    assert await _numbers(page) == await _numbers(other) == list(range(1, 151))


_HIDE = (
    "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    " document.dispatchEvent(new Event('visibilitychange')) }"
)


async def test_hidden_tabs_give_their_connections_back(page: Page, chat: httpx.AsyncClient) -> None:
    """A browser has six for one address: without that the fourth tab of a running conversation loads no more."""
    await _ask(page, "count to 2000")
    await _has_counted(page, 3)
    tabs = [page]
    for _ in range(3):
        await tabs[-1].evaluate(_HIDE, True)
        tabs.append(await page.context.new_page())
        await tabs[-1].goto(page.url)
        await _has_counted(tabs[-1], 3)
    before = len(await _numbers(page))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    await page.evaluate(_HIDE, False)
    await _has_counted(page, before + 1)
    assert any('"since":' in body for body in asked), "goes on after the last event, not from the start"
    numbers = await _numbers(page)
    assert numbers == list(range(1, len(numbers) + 1))
    await chat.delete(f"/{page.url.rpartition('/')[2]}")


async def test_stop_ends_the_run_on_the_server(page: Page, chat: httpx.AsyncClient) -> None:
    await _ask(page, "count to 2000")
    await _has_counted(page, 3)
    await page.get_by_role("button", name="Stop").click()
    await _settled(page)
    thread_id = page.url.rpartition("/")[2]

    async def stopped() -> bool:
        return bool((await chat.get(f"/{thread_id}/activity")).json()["runStatus"] == "interrupted")

    await _until(stopped, "the run's end")
    await _ask(page, "compute 2 + 2")
    await _settled(page)
    await expect(_answers(page).last).to_contain_text("4")


async def test_stop_works_after_a_reload(page: Page, chat: httpx.AsyncClient) -> None:
    await _ask(page, "count to 2000")
    await _has_counted(page, 3)
    await page.reload()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await _has_counted(page, 3)
    await page.get_by_role("button", name="Stop").click()
    await _settled(page)
    assert len(await _numbers(page)) < 2000


async def test_switching_threads_and_deleting_one(page: Page, chat_stack: Stack) -> None:
    await _ask(page, "hello there, first")
    await _settled(page)
    await page.get_by_role("button", name="New conversation").click()
    await expect(_answers(page)).to_have_count(0)
    await _ask(page, "hello there, second")
    await _settled(page)
    conversations = page.get_by_role("navigation", name="Conversations")
    first = conversations.get_by_role("button", name=re.compile("^hello there, first"))
    second = conversations.get_by_role("button", name=re.compile("^hello there, second"))
    await expect(second).to_have_attribute("aria-current", "page")
    await first.click()
    await expect(page.get_by_text("hello there, first", exact=True).last).to_be_visible()
    await expect(first).to_have_attribute("aria-current", "page")
    await page.go_back()
    await expect(second).to_have_attribute("aria-current", "page")

    await conversations.get_by_role("button", name="Delete “hello there, second”").click()
    await conversations.get_by_role("button", name="Keep").click()
    await conversations.get_by_role("button", name="Delete “hello there, second”").click()
    await conversations.get_by_role("button", name="Delete", exact=True).click()
    await expect(second).to_have_count(0)
    await expect(first).to_be_visible()
    await expect(page).to_have_url(f"{chat_stack.api_url}/chat")
    await page.reload()
    await expect(first).to_be_visible()
    await expect(second).to_have_count(0)


async def test_approval_is_asked_for_and_survives_a_reload(page: Page) -> None:
    await _ask(page, "Publish: our release notes")
    prompt = page.get_by_role("group", name="The assistant waits for you")
    await expect(prompt).to_contain_text("publish_note")
    await page.reload()
    await expect(prompt).to_contain_text("our release notes")
    await page.get_by_role("button", name="Approve").click()
    await expect(_answers(page).last).to_contain_text("Published the note")
    await expect(prompt).to_have_count(0)
    await _settled(page)
    await _ask(page, "hello")
    await _settled(page)
    await expect(prompt).to_have_count(0)


async def test_rejection_reaches_the_agent(page: Page) -> None:
    await _ask(page, "Publish: a secret")
    await page.get_by_label("Reason, if you reject it").fill("not today")
    await page.get_by_role("button", name="Reject").click()
    await _settled(page)
    await expect(_answers(page).last).to_contain_text("not today")


async def test_a_failed_run_says_why(page: Page) -> None:
    await _ask(page, "fail on purpose")
    await expect(page.get_by_role("alert")).to_contain_text("The scripted model failed")
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("The scripted model failed")
    await _ask(page, "compute 3 * 3")
    await _settled(page)
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(_answers(page).last).to_contain_text("9")


async def test_links_lead_to_the_trace_and_the_workflow(page: Page, chat_stack: Stack) -> None:
    await _ask(page, "compute 7 * 7")
    await _settled(page)
    workflow = page.get_by_role("link", name="Workflow")
    address = await workflow.get_attribute("href")
    assert address and address.startswith(chat_stack.temporal_ui_url)
    assert page.url.rpartition("/")[2] in address
    trace = await page.get_by_role("link", name="Trace").get_attribute("href")
    await page.goto(f"{chat_stack.api_url}{trace}")
    await expect(page.locator(".span", has_text="calculator")).to_be_visible()
    await expect(page.locator(".span").first).to_contain_text("chat")


async def test_everything_can_be_done_with_the_keyboard(page: Page) -> None:
    await expect(_field(page)).to_be_focused()
    await page.keyboard.type("compute 8 * 8")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("please")
    await page.keyboard.press("Enter")
    # In the conversation: its title in the list may say the same.
    await expect(page.get_by_role("article", name="You")).to_have_text("compute 8 * 8\nplease")
    await _settled(page)
    card = page.get_by_role("button", name=re.compile("math-whiz"))
    await card.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Task")).to_be_visible()
    await expect(page.get_by_role("button", name="Main chat")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(card).to_be_visible()


async def test_model_output_runs_no_script_and_loads_no_image(page: Page, chat_stack: Stack) -> None:
    """A note's title comes back in the answer: here it tries what a hostile model would."""
    await _ask(
        page,
        "Publish: <img src=x onerror=alert(1)> ![i](http://elsewhere.example/i.png) [l](javascript:alert(1))",
    )
    await page.get_by_role("button", name="Approve").click()
    await expect(_answers(page).last).to_contain_text("Published the note")
    await _settled(page)
    assert await page.locator(".scroll img, .scroll script").count() == 0
    assert await page.locator("a[href^='javascript']").count() == 0


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_nothing_overflows(browser: Browser, chat_stack: Stack, theme: str, tmp_path: Path) -> None:
    """At the widths of a phone, a tablet and a desktop; SLIPWAY_SCREENSHOTS=1 keeps the pictures in docs/."""
    folder = SCREENSHOTS if os.environ.get("SLIPWAY_SCREENSHOTS") else tmp_path
    async with _visitor(browser, color_scheme=theme, reduced_motion="reduce") as context:
        page = await context.new_page()
        await page.goto(f"{chat_stack.api_url}/chat")
        await _pictures(page, folder, f"welcome-{theme}")
        await _ask(page, BOTH)
        await _settled(page)
        await _pictures(page, folder, f"conversation-{theme}")
        await page.get_by_role("button", name=re.compile("researcher")).click()
        await page.get_by_role("button", name=re.compile("search_web")).click()
        await _pictures(page, folder, f"subagent-{theme}")
        await page.keyboard.press("Escape")
        await _ask(page, "Publish: our release notes")
        await expect(page.get_by_role("group", name="The assistant waits for you")).to_be_visible()
        await _pictures(page, folder, f"approval-{theme}")
        trace = await page.get_by_role("link", name="Trace").get_attribute("href")
        await page.goto(f"{chat_stack.api_url}{trace}")
        await expect(page.locator(".span").first).to_be_visible()
        await _pictures(page, folder, f"trace-{theme}")


# What moves to its place has arrived there; what blinks for ever may blink.
_STILL = (
    "Promise.all(document.getAnimations().filter(a => a.effect.getTiming().iterations !== Infinity)"
    ".map(a => a.finished.catch(() => null)))"
)


async def _pictures(page: Page, folder: Path, name: str) -> None:
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 812 if width == 375 else 900})
        await page.evaluate(_STILL)
        await page.screenshot(path=folder / f"{name}-{width}.png")
        overflow = await page.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => {"
            " const box = e.getBoundingClientRect(), style = getComputedStyle(e);"
            " return box.width > 1 && box.right > innerWidth + 1 && style.visibility !== 'hidden'"
            " && !e.closest('pre, .table-scroll, .visually-hidden') }).map(e => e.className || e.tagName)"
        )
        assert overflow == [], f"{name} at {width}"
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} at {width}"
    await page.set_viewport_size({"width": 1440, "height": 900})


RESTARTED = ("worker-listener", "worker-platform", "api", "temporal", "postgres", "s3")


async def test_restart_of_every_server_in_mid_run_with_the_page_open(page: Page, chat_stack: Stack) -> None:
    """Every process is killed at once, the revision's worker with its listener; the page stays as it is."""
    await _ask(page, "count to 400")
    await _has_counted(page, 5)
    workers = _revision_workers(chat_stack)
    assert workers
    killed = {name: chat_stack.kill(name) for name in RESTARTED}
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for name, pid in killed.items():
        await asyncio.to_thread(chat_stack.wait_restarted, name, pid, 120.0)
    await _has_counted(page, 399)
    await _settled(page)
    assert await _numbers(page) == list(range(1, 401))
    await _ask(page, "compute 9 * 9")
    await _settled(page)
    await expect(_answers(page).last).to_contain_text("81")


def _revision_workers(stack: Stack) -> list[int]:
    """Processes that execute runs for this stack."""

    def is_worker(process: Path) -> bool:
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            return False
        return b"slipway_runtime" in command and str(stack.home).encode() in environment

    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if is_worker(process)]
