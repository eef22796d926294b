"""A person in a browser: the mouse and the keyboard, counted, and a picture of each step."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.e2e.running.browser import Page

_FIND: Final = """(() => {
  const all = [...document.querySelectorAll(%s)].filter(one => !%s ||
    one.innerText.replace(/\\s+/g, ' ').trim().includes(%s));
  const one = all.find(each => each.checkVisibility() && !each.disabled);
  if (!one) return null;
  one.scrollIntoView({block: 'center'});
  const box = one.getClientRects()[0], x = box.left + box.width / 2, y = box.top + box.height / 2;
  const hit = document.elementFromPoint(x, y);
  return hit && (one.contains(hit) || hit.contains(one)) ? [x, y] : null;
})()"""


@dataclass
class Step:
    """What a person did, until the page shows what came of it; waiting for a run counts, too."""

    name: str
    clicks: int = 0
    keys: int = 0
    seconds: float = 0.0


class Walk:
    """Clicks and types as a person does: an element must be in sight, and nothing may cover it."""

    def __init__(self, page: Page, pictures: Path) -> None:
        self.page = page
        self.steps: list[Step] = []
        self._pictures = pictures

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the clicks, keys and seconds of a step, and take a picture at its end."""
        self.steps.append(Step(name))
        began = time.monotonic()
        yield
        self.steps[-1].seconds = round(time.monotonic() - began, 1)
        self.page.picture(self._pictures / f"walk-{len(self.steps)}.webp")
        counted = json.dumps([asdict(step) for step in self.steps], indent=1)
        (self._pictures / "walk.json").write_text(counted + "\n", encoding="utf-8")

    def click(self, selector: str, text: str = "", *, is_counted: bool = True) -> None:
        """Click the first visible element that has the text, with the mouse."""
        words = json.dumps(text)
        script = _FIND % (json.dumps(selector), words, words)
        self.page.wait_until(script)
        x, y = self.page.run(script)
        for kind in ("mousePressed", "mouseReleased"):
            event = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.page.ask("Input.dispatchMouseEvent", type=kind, **event)
        self.steps[-1].clicks += is_counted

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, ord(key[0].upper()))
            for kind in ("keyDown", "keyUp"):
                given = {"key": key, "text": text, "windowsVirtualKeyCode": code}
                self.page.ask("Input.dispatchKeyEvent", type=kind, **given)
            self.steps[-1].keys += 1

    def choose(self, selector: str, value: str) -> None:
        """Choose a value of a list: one click opens the list, one takes the value."""
        self.click(selector)
        self.press("Escape")  # the list of a headless browser is not drawn
        self.steps[-1].keys -= 1
        self.page.run(
            f"(one => {{ one.value = {value!r}; one.dispatchEvent(new Event('change')); }})"
            f"(document.querySelector({selector!r}))"
        )
        self.count_click()

    def count_click(self) -> None:
        self.steps[-1].clicks += 1

    def write(self, selector: str, text: str) -> None:
        """Click into a field, and write."""
        self.click(selector)
        self.page.ask("Input.insertText", text=text)
