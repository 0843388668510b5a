"""The files in `page/`: each is read once, and answered under a path of its own."""

from collections.abc import Mapping
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def page_routes(pages: Mapping[str, tuple[str, str]]) -> list[Route]:
    """The routes of a page and its files.

    Args:
      pages: path -> file in `page/` and its type.
    """
    return [_route(path, name, kind) for path, (name, kind) in pages.items()]


def _route(path: str, name: str, kind: str) -> Route:
    body = (files("realtime_lrp.commands.serve") / "page" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(body, media_type=kind)

    return Route(path, answer)
