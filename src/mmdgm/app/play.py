"""The page Play: a trained model to draw for, to leave values out for, and to let generate."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mmdgm.app.server import make_site
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier

Estimator = MMCVAClassifier | MMVAClassifier


def play_site(estimator: Estimator, *, name: str) -> Starlette:
    """Return the site of a fitted estimator; `name`: what the page calls it."""

    async def about(_: Request) -> Response:
        return JSONResponse({"name": name, "fitted_on": estimator.codec_.fitted_on})

    return make_site("play.html", [Route("/api/about", about)])
