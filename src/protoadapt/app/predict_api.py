"""The endpoint for programs: pictures in, labels of a fitted classifier out.

Requests are answered together: a worker takes all pictures that wait, up to one forward pass of the network, so that
many clients cost little more than the network alone. What waits is bounded: beyond that a request has to come later.
"""

import asyncio
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field
from scipy.special import softmax
from torch import nn

from protoadapt.app.intake import Limits, Read, Upload, read_form, read_upload
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.outputs import UNLABELED, picture_records
from protoadapt.vision.embed import FORWARD, check_rows, embed_batches

WAITING, DECODERS = 512, 4
"""Pictures that may wait for the network, and pictures that are decoded at once."""


class Prediction(BaseModel):
    """The answer to one picture."""

    name: str = Field(description="file name, as sent")
    label: str = Field(description="likeliest class")
    confidence: float = Field(description="its probability, 0 to 1")
    runner_up: str = Field(description="second likeliest class")
    probabilities: dict[str, float] = Field(description="of all classes; what is left is that of groups without a name")
    density: float = Field(description="how familiar it is: log of the summed likelihoods of all classes and groups")
    margin: float = Field(description="difference of the two probabilities")
    unknown: bool = Field(description="the picture resembles none of the classes")
    group: str | None = Field(description="where it resembles others of a kind without a name: that group")


class Unreadable(BaseModel):
    """A file that is no picture, and why."""

    name: str
    reason: str


class Predictions(BaseModel):
    """The answer to one request, pictures in the order in which they were sent."""

    pictures: list[Prediction]
    skipped: list[Unreadable]


class Predictor:
    """A network with a classifier, which one worker thread asks for all requests."""

    def __init__(self, network: nn.Module, metadata: Mapping[str, Any], classifier: Classifier):
        self.network, self.metadata, self.classifier = network, metadata, classifier
        self._waiting: queue.Queue[tuple[np.ndarray, Future[np.ndarray]]] = queue.Queue(WAITING)
        threading.Thread(target=self._work, daemon=True).start()

    def ask(self, pixels: np.ndarray) -> "Future[np.ndarray]":
        """The features (D) of a picture (3, size, size), when the network has made them. Raises queue.Full."""
        future: Future[np.ndarray] = Future()
        self._waiting.put_nowait((pixels, future))
        return future

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while len(batch) < FORWARD and not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                pixels = np.stack([pixels for pixels, _ in batch])
                ((_, rows),) = embed_batches(
                    self.network, self.metadata, [(None, pixels)], views=self.classifier.model.get("views", 1)
                )
                for row, (_, future) in zip(check_rows(rows).numpy(), batch):
                    future.set_result(row)
            except Exception as error:  # the requests fail, the worker goes on
                for _, future in batch:
                    future.set_exception(error)


def predict_routes(predictor: Predictor, limits: Limits) -> APIRouter:
    """POST /api/predict and GET /health."""
    routes, decoders, classifier = APIRouter(tags=["predict"]), asyncio.Semaphore(DECODERS), predictor.classifier

    async def decoded(upload: Upload) -> Read:
        async with decoders:
            return await run_in_threadpool(read_upload, upload, predictor.metadata, limits)

    @routes.post("/api/predict", openapi_extra=BODY)
    async def predict(request: Request) -> Predictions:
        """Name one or many pictures: a form with `files`, or one picture as the body."""
        form = await read_form(request)
        sent = form[1] if form else [Upload("picture", await request.body())]
        uploads = [one._replace(name=one.name[-255:]) for one in sent]
        found = list(zip(uploads, await asyncio.gather(*map(decoded, uploads))))
        skipped = [Unreadable(name=upload.name, reason=one.error) for upload, one in found if one.pixels is None]
        if len(skipped) == len(uploads):
            why = f"{skipped[0].name!r}: {skipped[0].reason}" if skipped else "the request holds none"
            raise HTTPException(422, f"there is no picture that can be read ({why})")
        try:
            asked = [predictor.ask(one.pixels) for _, one in found if one.pixels is not None]
        except queue.Full:
            busy = "too many pictures are waiting: try again in a moment"
            raise HTTPException(503, busy, {"Retry-After": "1"}) from None
        rows = await asyncio.gather(*map(asyncio.wrap_future, asked))
        logits = await run_in_threadpool(classifier.logits, np.stack(rows))
        answers, shares = classifier.decide(logits), softmax(logits / classifier.temperature, axis=1)
        names = [upload.name for upload, one in found if one.pixels is not None]
        records = picture_records(names, answers, np.full(len(rows), UNLABELED), classifier.classes)
        pictures = [
            Prediction(name=record["file"], probabilities=dict(zip(classifier.classes, share.tolist())), **record)
            for record, share in zip(records, shares)
        ]
        return Predictions(pictures=pictures, skipped=skipped)

    @routes.get("/health")
    def health() -> dict[str, Any]:
        """Answers as soon as pictures are answered."""
        model = str(predictor.metadata["model"])
        return {"status": "ok", "model": model, "classes": classifier.classes}

    return routes


_FILE = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "required": ["files"], "properties": {"files": {"type": "array", "items": _FILE}}}
BODY = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FORM}, "image/*": {"schema": _FILE}},
    },
    "responses": {"413": {"description": "larger than the limit"}, "503": {"description": "too many requests wait"}},
}
