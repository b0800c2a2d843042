"""The page Play: a trained model to draw for, to leave values out for, and to let generate."""

from typing import Any

from numpy.typing import NDArray
from starlette.applications import Starlette

from mmdgm.app.answers import bytes_route, get_route, json_route
from mmdgm.app.image_play import Estimator, ImagePlay, image_questions
from mmdgm.app.server import make_site
from mmdgm.app.table_play import TablePlay, table_questions
from mmdgm.app.worker import Worker
from mmdgm.data.codecs import ImageCodec


def play_site(estimator: Estimator, *, name: str, rows: NDArray[Any] | None = None) -> Starlette:
    """Return the site of a fitted estimator; `name`: what the page calls it; `rows`: examples, if any are at hand."""
    worker = Worker()
    play: ImagePlay | TablePlay
    if isinstance(estimator.codec_, ImageCodec):
        play = ImagePlay(estimator, rows)
        routes, questions = [bytes_route("/api/upload", worker, play.upload)], image_questions(play)
    else:
        play = TablePlay(estimator, rows)
        routes, questions = [], table_questions(play)
    known = {**play.about(), "name": name, "model": type(estimator).__name__}
    routes.append(get_route("/api/about", worker, lambda: known))
    routes += [json_route(f"/api/{path}", worker, question) for path, question in questions.items()]
    return make_site("play.html", routes)
