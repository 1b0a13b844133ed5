"""Images as JSON, between the driver and the command."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from lychgate_conformance.lab._image import DIRECTORY, Content, Image, Symlink


def image_to_json(image: Image) -> dict[str, Any]:
    """An image as plain lists; bytes as runs."""
    return {
        "paths": list(image.paths),
        "contents": [_to_json(content) for content in image.contents],
        "groups": [list(group) for group in image.groups],
    }


def image_from_json(value: dict[str, Any]) -> Image:
    """The image that `image_to_json` took apart."""
    contents = tuple(_from_json(content) for content in value["contents"])
    groups = tuple(tuple(group) for group in value["groups"])
    return Image(tuple(value["paths"]), contents, groups)


def _to_json(content: Content) -> Any:
    if isinstance(content, bytes):
        return [[byte, len(list(run))] for byte, run in groupby(content)]
    return content.target if isinstance(content, Symlink) else None


def _from_json(value: Any) -> Content:
    if isinstance(value, list):
        return b"".join(bytes([byte]) * count for byte, count in value)
    return DIRECTORY if value is None else Symlink(value)
