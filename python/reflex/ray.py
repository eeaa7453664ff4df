"""Models on a Ray cluster: batch inference over a data set, and a service that batches requests.

    dataset.map_batches(reflex.ray.Predictor, fn_constructor_args=["model.so"], batch_size=64,
                        compute=ray.data.ActorPoolStrategy(size=4))
    serve.run(reflex.ray.deployment("model.so", serve_options={"num_replicas": 2}))

Each actor has its own session. Give actors an artifact (`.so`), which needs no compiler: the actors of
a node share the pages of its weights. The model's path must be readable on every node. docs/serving.md
has sizes, failures and limits. Decision: docs/decisions/0065-ray.md
"""
from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from . import load

_Rows = dict[str, Any]


class Predictor:
    """A model as the callable class of `Dataset.map_batches`: columns in, columns out.

    `columns` are the data set's names of the model's inputs where they differ; `keep` are columns that
    are passed through. `options` are those of `reflex.load`.

    >>> import reflex.ray
    >>> predict = reflex.ray.Predictor("model.so", columns={"input_ids": "tokens"}, keep=["id"])
    >>> sorted(predict({"tokens": tokens, "id": ids}))
    ['id', 'vector']
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        function: str = "main",
        columns: Mapping[str, str] | None = None,
        keep: tuple[str, ...] | list[str] = (),
        mode: str = "tiered",
        **options: Any,
    ) -> None:
        program = load(model, **options)
        self._inputs = [info.name for info in program.signature(function).inputs]
        unknown = sorted(set(columns or {}) - set(self._inputs))
        if unknown:
            raise ValueError(f"columns names {unknown}; the model's inputs are {self._inputs}")
        self._columns = dict(columns or {})
        self._keep = list(keep)
        self._function = function
        self._session = program.session(mode)

    def __call__(self, batch: Mapping[str, Any]) -> _Rows:
        """Returns the outputs of a batch by name, and the columns to keep."""
        feed = {}
        for name in self._inputs:
            column = self._columns.get(name, name)
            if column not in batch:
                raise KeyError(f"input {name!r}: there is no column {column!r} in {sorted(batch)}")
            feed[name] = batch[column]
        results = self._session.run(feed, function=self._function)
        # Ray keeps what it gets for as long as it likes.
        outputs = {str(name): np.array(value) for name, value in results.items()}
        return outputs | {name: batch[name] for name in self._keep}


def _alike(request: _Rows) -> tuple[Any, ...]:
    """What requests of one run have in common: types, and shapes but for the rows."""
    return tuple((name, str(value.dtype), value.shape[1:]) for name, value in sorted(request.items()))


def run_together(predict: Predictor, requests: list[_Rows]) -> list[_Rows | Exception]:
    """Runs requests that differ in their rows alone as one batch, and returns a result or an error for
    each of them: a request that fails does not fail others.

    >>> [result["vector"].shape for result in reflex.ray.run_together(predict, [one_row, two_rows])]
    [(1, 384), (2, 384)]
    """
    answers: list[_Rows | Exception] = [KeyError("no answer")] * len(requests)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, request in enumerate(requests):
        groups.setdefault(_alike(request), []).append(at)
    for members in groups.values():
        for at, answer in zip(members, _run_group(predict, [requests[at] for at in members])):
            answers[at] = answer
    return answers


def _run_group(predict: Predictor, requests: list[_Rows]) -> list[_Rows | Exception]:
    names = list(requests[0])
    try:
        if len(requests) == 1:
            return [predict(requests[0])]
        counts = [len(request[names[0]]) for request in requests]
        ends = np.cumsum(counts)
        batch = {name: np.concatenate([request[name] for request in requests]) for name in names}
        results = predict(batch)
        if any(len(rows) != ends[-1] for rows in results.values()):
            raise ValueError("an output does not have a row for each of the batch")
        return [
            {name: rows[end - count : end] for name, rows in results.items()}
            for count, end in zip(counts, ends)
        ]
    except Exception as error:  # noqa: BLE001 - it is this request's answer
        if len(requests) == 1:
            return [error]
        return [answer for request in requests for answer in _run_group(predict, [request])]


def deployment(
    model: str | os.PathLike[str],
    max_batch_size: int = 16,
    batch_wait_timeout_s: float = 0.002,
    serve_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Returns an application of Ray Serve that answers feeds, arrays by name, whose first dimension is
    the batch's. Requests that arrive within `batch_wait_timeout_s` seconds run together. `serve_options`
    are those of `ray.serve.deployment`, such as `num_replicas`; `options` are those of `Predictor`.

    >>> handle = serve.run(reflex.ray.deployment("model.so", max_batch_size=8))
    >>> handle.remote({"input_ids": tokens}).result()["vector"].shape
    (1, 384)
    """
    serve: Any = import_module("ray.serve")

    class Service:
        def __init__(self) -> None:
            predict = Predictor(model, **options)

            async def run(requests: list[_Rows]) -> list[_Rows | Exception]:
                # One batch at a time; meanwhile the replica takes requests.
                return await asyncio.to_thread(run_together, predict, requests)

            self._batched: Any = serve.batch(
                run, max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_timeout_s
            )

        async def __call__(self, request: Mapping[str, Any]) -> _Rows:
            feed = {str(name): np.asarray(value) for name, value in request.items()}
            answer: _Rows | Exception = await self._batched(feed)
            if isinstance(answer, Exception):
                raise answer
            return answer

    # Serve's own limit would keep batches from filling.
    defaults = {"name": "Reflex", "max_ongoing_requests": 2 * max_batch_size}
    return serve.deployment(Service, **{**defaults, **(serve_options or {})}).bind()
