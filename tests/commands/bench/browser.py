"""A page in a real browser: what it shows, what it complains of, and what it asks for."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Of each plot: what of it is drawn, where it is, by how much its text stands out of it, and which
# texts are over each other. `within` is whether what lies within the axes is cut off at
# them: no style of the page takes their size away.
_PLOTS = """() => [...document.querySelectorAll('svg[role=img]')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('.line, .dot')];
  const seen = marks.map(mark => mark.getBoundingClientRect());
  const texts = [...svg.querySelectorAll('text')].map(
    text => ({text: text.textContent, at: text.getBoundingClientRect()}));
  const out = texts.map(({at}) => Math.max(box.left - at.left, at.right - box.right,
                                           box.top - at.top, at.bottom - box.bottom));
  // A line of text is higher than its letters.
  const slack = 3;
  const over = texts.flatMap((one, n) => texts.slice(n + 1).filter(({at}) =>
    Math.min(one.at.right, at.right) - Math.max(one.at.left, at.left) > 0
    && Math.min(one.at.bottom, at.bottom) - Math.max(one.at.top, at.top) > slack
  ).map(other => [one.text, other.text]));
  const within = svg.querySelector('svg');
  const sizes = [...document.styleSheets[0].cssRules].filter(
    rule => rule.style && (rule.style.width || rule.style.height)
            && within.matches(rule.selectorText));
  return {
    name: svg.getAttribute('aria-label'),
    caption: svg.closest('figure').querySelector('figcaption').innerText,
    width: box.width, height: box.height, left: box.left, right: box.right,
    drawn: seen.filter(one => one.width > 0 || one.height > 0).length,
    texts: out.length, overflow: Math.max(...out), over,
    within: getComputedStyle(within).overflow === 'hidden' && sizes.length === 0,
  };
})"""
# The contrast, as WCAG has it, of whatever has text of its own, and of lines in plots.
_CONTRASTS = """() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = numbers(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const found = [];
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    const kind = element.closest('svg') ? 'plot' : element.closest('table') ? 'table' : 'page';
    const style = getComputedStyle(element), under = ground(element);
    if (own && element.getClientRects().length) {
      const colour = numbers(kind === 'plot' ? style.fill : style.color);
      found.push({kind, text: element.textContent.trim().slice(0, 40),
                  contrast: contrast(colour.slice(0, 3), under)});
    } else if (element.matches('.line')) {
      found.push({kind: 'line', text: style.stroke,
                  contrast: contrast(numbers(style.stroke).slice(0, 3), under)});
    }
  }
  return found;
}"""
_BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
_WIDTHS = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@dataclass
class Opened:
    """An open page: `complaints` are of its console and scripts, `requests` all that it made."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def plots(self):
        return self.page.evaluate(_PLOTS)

    def contrasts(self):
        return self.page.evaluate(_CONTRASTS)

    def background(self):
        return self.page.evaluate(_BACKGROUND)

    def sideways(self):
        """By how many pixels the page is wider than its window."""
        whole, seen = self.page.evaluate(_WIDTHS)
        return whole - seen


@pytest.fixture(scope="module", name="open_page")
def fixture_open_page(tmp_path_factory):
    """`with open_page(PATH_OR_HTML, "dark") as opened`, in the browser of this machine."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(f"none of {', '.join(NAMES)} is here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("pages")
    with sync_playwright() as playwright:
        # As root, and in containers, there is no room for its sandbox.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield lambda what, color_scheme="light", width=1280: _opened(
            browser, _file(what, folder), color_scheme, width
        )
        browser.close()


def _file(what: Path | str, folder: Path) -> Path:
    if isinstance(what, Path):
        return what
    file = folder / "page.html"
    file.write_text(what, encoding="utf-8")
    return file


@contextmanager
def _opened(browser: Browser, file: Path, color_scheme, width) -> Iterator[Opened]:
    page = browser.new_page(color_scheme=color_scheme, viewport={"width": width, "height": 900})
    opened = Opened(page)
    page.on("console", lambda said: opened.complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.goto(file.resolve().as_uri())
    page.wait_for_load_state("networkidle")
    yield opened
    page.close()
