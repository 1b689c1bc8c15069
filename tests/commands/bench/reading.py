"""A page as its readers have it: elements, tables and facts; and records that have one each."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.commands.bench.records import DIGEST, PLAN, point, record, validated
from vpatch.commands.bench.match import joined
from vpatch.commands.bench.report.page import page_of

SERVER = {"url": "http://127.0.0.1:8000", "model": "m", "root": None, "vllm": "0.23.0", "k": 2}
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.parts = []

    @property
    def text(self):
        """All text, each run of white space as one space, as a browser has it."""
        parts = [part if isinstance(part, str) else part.text for part in self.parts]
        return " ".join(" ".join(parts).split())

    def all(self, tag, **attributes):
        found = []
        for part in self.parts:
            if isinstance(part, Element):
                wanted = {key.rstrip("_"): value for key, value in attributes.items()}
                if part.tag == tag and wanted.items() <= part.attributes.items():
                    found.append(part)
                found += part.all(tag, **attributes)
        return found

    def one(self, tag, **attributes):
        (found,) = self.all(tag, **attributes)
        return found


class Reader(HTMLParser):
    """A page as elements; each that is opened must be closed, in the right order."""

    def __init__(self, page):
        super().__init__()
        self.root = self.at = Element("", {}, None)
        self.feed(page)
        self.close()
        assert self.at is self.root, f"{self.at.tag} is never closed"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        element = Element(tag, attrs, self.at)
        self.at.parts.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag, attrs):
        self.at.parts.append(Element(tag, attrs, self.at))

    def handle_endtag(self, tag):
        assert tag == self.at.tag, f"</{tag}> within {self.at.tag}"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.parts.append(data)


def read(found):
    return Reader(page_of(validated(found))).root


def table(page, title):
    """The cells of the body of a table below a heading, as text."""
    return [[cell.text for cell in row] for row in cells(page, title)]


def cells(page, title):
    (heading,) = [one for one in page.all("h3") if one.text == title]
    body = heading.parent.one("table").one("tbody")
    return [row.all("td") for row in body.all("tr")]


def said(page, title):
    """What stands below a heading of facts: a name, and the text of each cell beside it."""
    (heading,) = [one for one in page.all("h2") if one.text == title]
    rows = heading.parent.one("tbody").all("tr")
    return {row.one("th").text: [cell.text for cell in row.all("td")] for row in rows}


def several():
    """A record of two models and shapes with three sides, none of which is like another."""
    found = record(models=("one", "two"), sides=(1.0, 1.2, 0.9), ks=(0, 1), repeats=1)
    other = {"dataset": "sharegpt", "path": "d/s.json", "output": 9}
    found["plan"]["shapes"] = [*PLAN["shapes"], other]
    found["datasets"] = {"s/9": DIGEST}
    found["points"] += [one | {"shape": "s/9"} for one in found["points"]]
    found["sides"][1] |= {"inherited": {"HF_HOME": "/models"}}
    return found


def without(found, *ks):
    """A record in which servers with some k did not start."""
    names = ("side", "model", "k", "shape", "concurrency", "repeat")
    points = [
        point(None, **{name: p[name] for name in names}) if p["k"] in ks else p
        for p in found["points"]
    ]
    return found | {"points": points}


def of_servers():
    """Two servers that were there before, each with a k of its own."""
    found = record(ks=(0, 2), sides=(1.0, 1.0))
    found["points"] = [p for p in found["points"] if p["k"] == 2 * p["side"]]
    found["models"]["tiny"]["digest"] = None
    for number, one in enumerate(found["sides"]):
        one |= {"digest": None, "servers": [SERVER | {"k": 2 * number}], "what": SERVER["url"]}
        del one["subject"], one["engine"]
    return found


RECORDS = {
    "whole": record(),
    "several": several(),
    "all failed": without(record(), 0, 1, 2, 3),
    "one k": record(ks=(2,)),
    "only k = 0": record(ks=(0,)),
    "one repeat": record(repeats=1),
    "one concurrency": record(concurrency=(4,)),
    "of one point": record(ks=(0,), concurrency=(1,), repeats=1),
    "no k = 0": record(ks=(1, 3)),
    "k = 0 failed": without(record(), 0),
    "servers": of_servers(),
    "compared": joined([validated(record()), validated(record(gain=0.4) | {"name": "other"})], []),
}
