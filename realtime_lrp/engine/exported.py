"""The engine of an exported explanation: an ONNX file that onnxruntime runs, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import msgspec
import numpy as np

from realtime_lrp import errors
from realtime_lrp.config import Config, check_names
from realtime_lrp.config.names import AUTO
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.result import (
    ConceptRequest,
    ConceptResult,
    MapKind,
    Result,
    ResultMap,
)
from realtime_lrp.engine.sight import Begun, PictureEngine, Sight
from realtime_lrp.models.exported import Exported, session_of
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.models.labels import class_names
from realtime_lrp.models.names import hashes, network_files
from realtime_lrp.relevance.maps.scale import strength_of
from realtime_lrp.relevance.maps.targets import OneTarget, Target, TargetResolver, TargetTensors
from realtime_lrp.system.machine import core_count
from realtime_lrp.video.region import Region

NO_CHANNELS = "an exported explanation has no channels: give the network itself"


class ExportedExplainer:
    """Facts about the explainer of a file, in the form of `Explainer`.

    Attributes:
      input_shape, stride, classes, passes, target, unsuited, advice: as of `Explainer`.
      fixed: the target where the file has no other, or None.
    """

    passes = flops = weights = 0
    traces = 1
    unsuited: tuple[str, ...] = ()
    concept_layers: tuple[str, ...] = ()
    advice = ""
    gives_biases_nothing = False

    def __init__(self, about: Exported, target: OneTarget) -> None:
        self.input_shape = (*about.size, 3)
        self.stride = about.map.stride
        self.classes = about.classes
        self.resolve = TargetResolver(about.classes, about.labels)
        self.fixed = self.resolve.read(about.target) if about.target else None
        self._signed = about.map.signed
        self.target = self.read_target(target)

    def read_target(self, target: OneTarget) -> Target:
        """Reads a target, see `TargetResolver.read`; the only one of a file with a fixed target."""
        return self.resolve.read(target) if self.fixed is None else self.fixed

    def signs_for(self, target: OneTarget, contrast: bool = False) -> tuple[bool, ...]:
        """Whether the map can have negative entries for a target."""
        return (self._signed or self.resolve(self.read_target(target)).contrasts,)

    def channel_counts(self) -> dict[str, int]:
        return {}


class NoConcepts:
    """The channels of a file: none, as `ConceptPipelines` says it."""

    layers: tuple[str, ...] = ()

    def is_ready(self, wanted: ConceptRequest) -> bool:
        return True

    def compile(self, wanted: ConceptRequest) -> None:
        pass

    def refusal(self, wanted: ConceptRequest | None = None) -> ConceptResult:
        return ConceptResult("", problem=NO_CHANNELS)


class ExportedEngine(PictureEngine):
    """An exported explanation, ready for pictures; it has the attributes of `Engine`.

    Raises:
      UsageError: another method, composite, map or size is asked for than the file has.
      DamagedInputError: the file is damaged.
      UnavailableError: onnxruntime is not installed.
    """

    detects = False
    segments = False
    in_flight = 1
    also = ()
    device = "CPU"
    concept_layer: str | None = None
    scores_ready = True  # nothing is compiled for them

    def __init__(self, config: Config, also: Sequence[str] = ()) -> None:
        check_names(config)
        self._file = config.model.name
        try:
            self._session = session_of(self._file, core_count())
        except ImportError:
            raise errors.UnavailableError(
                "Exported explanations need onnxruntime: pip install onnxruntime"
            ) from None
        except Exception as error:  # what onnxruntime raises has no common base
            why = errors.first_line(error)[:200]
            raise errors.DamagedInputError(
                f"The file {self._file!r} is damaged ({why}). Export it again."
            ) from None
        self._about = Exported.of(self._session, self._file)
        self.files = network_files(config)
        self.gallery: Gallery | None = None
        self.concepts = NoConcepts()
        self._set(config, also)
        self.sight = Sight(config.input, self._about.size, self.fit)

    def _set(self, config: Config, also: Sequence[str]) -> None:
        about = self._about
        lrp = config.lrp
        model = config.model
        own = about.composite or about.method
        ours = lrp.method == "lrp"
        composites = (AUTO, about.composite)
        for is_wrong, what in (
            (lrp.method not in ("lrp", about.method), f"The method {lrp.method}"),
            (ours and lrp.composite not in composites, f"The composite {lrp.composite}"),
            (also, "Another map beside it"),
            (config.input.at is not None, "A place"),
            (lrp.layers, "Rules for layers"),
            (lrp.precision == "bfloat16", "Another precision"),
            (model.size not in (None, about.size), "Another size"),
            (model.weights is not None, "Other weights"),
            (config.overlay.map == "rgb", "A map by colours"),
        ):
            if is_wrong:
                raise errors.UsageError(
                    f"{self._file!r} holds one explanation, {own} of {about.name}. {what} needs "
                    "the network itself: --model NAME, or another export."
                )
        self.auto_composite = about.composite or lrp.composite
        known = {"method": about.method, "composite": self.auto_composite, "precision": "float32"}
        self.config = config.changed(lrp=known)
        labels = about.labels if model.labels is None else class_names(model.labels)
        self.network = msgspec.structs.replace(about, labels=labels)
        self.explainer = ExportedExplainer(self.network, lrp.target)
        self.precision = about.precision
        drawn = about.map
        tolerance = math.inf if drawn.accounted else None  # files do not say where it was lost
        several = about.classes > 1
        kind = MapKind(self.name, drawn.by_rules, drawn.difference, several, tolerance)
        self.kinds = (kind,)

    def with_config(self, config: Config, also: Sequence[str] = ()) -> ExportedEngine:
        """The engine for other settings of `overlay`; refuses others of `lrp`."""
        other = copy(self)
        other._set(config, also)
        return other

    @property
    def computed(self) -> str:
        """Precision and device."""
        return f"{self.precision} on {self.device}, onnxruntime"

    def warm_up(self) -> None:
        """Computes one map, which takes longer than others."""
        self._run(np.zeros((*self._about.size, 3), np.uint8), None)

    def leave_gpu(self, reason: str) -> None:
        pass

    def for_each_part(self, function: Callable[[np.ndarray], Any], batch: np.ndarray) -> list[Any]:
        return [function(batch)]

    def scores(self, pictures: np.ndarray, place: int | None = None) -> np.ndarray:
        """The scores, float32 [B, classes], of extracted regions, uint8 [B, h, w, 3]."""
        return np.array([self._run(picture, None)[0] for picture in pictures])

    def layers(self, *_: Any) -> list[Any]:
        raise errors.UsageError(
            f"{self._file!r} holds no layers. Give the network itself: --model NAME."
        )

    def begin(
        self,
        pictures: Sequence[np.ndarray] | np.ndarray,
        targets: Sequence[OneTarget] | None = None,
        concepts: ConceptRequest | None = None,
        regions: Sequence[Region] | None = None,
        **_: Any,
    ) -> Begun:
        """Explains pictures, see `Engine.begin`; what else that takes has no use here."""
        pictures, regions, read = self._seen(pictures, targets, regions)
        refusal = self.concepts.refusal() if concepts else None
        each = zip(pictures, regions, read, strict=True)
        results = [self._result(*one, refusal) for one in each]
        return Begun(lambda: results)

    def _result(
        self, picture: np.ndarray, region: Region, target: Target, refusal: ConceptResult | None
    ) -> Result:
        resolved = self.explainer.resolve(target)
        drawn = self._about.map
        top = resolved.top[0, 0]
        weights = None
        if self.explainer.fixed is None and not (top == 1 and resolved.weights.all()):
            depends = resolved.by_probability.any() and not drawn.from_scores
            if depends or top < self._about.classes or resolved.rest.any():
                scores = self._run(picture, None)[0]
            else:
                scores = np.zeros(self._about.classes, np.float32)
            weights = _weights(resolved, scores, drawn.from_scores)
        scores, relevance, account = self._run(picture, weights)
        if not all(np.isfinite(one).all() for one in (scores, relevance, account)):
            raise errors.NotFiniteError(f"{self._file!r} computes NaN or Inf of this picture.")
        start = scores * _weights(resolved, scores, True)
        begun = start if drawn.from_scores else _weights(resolved, scores, False)
        strength, scale = strength_of(relevance, self._about.map.stride)
        one = ResultMap(
            strength, scale, float(account[1]), float(np.abs(relevance).sum()),
            lambda: relevance[..., None], self.kinds[0], self.explainer.signs_for(target)[0],
            float(account[0]), float(np.abs(begun).sum()), float(account[2]),
        )  # fmt: skip
        explained = float(start.sum()), float(np.abs(start).sum())
        return Result(scores, explained, region, (one,), target, concepts=refusal)

    def _run(self, picture: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Scores [classes], relevance [H, W] and account [3]; None is the best class."""
        inputs = {"picture": picture[None]}
        if self.explainer.fixed is None:
            zeros = np.zeros(self._about.classes, np.float32)
            inputs["target"] = zeros if weights is None else weights
        scores, relevance, account = self._session.run(None, inputs)
        return scores[0], relevance[0], account

    def provenance(self, config: Config | None = None, *further: str) -> Provenance:
        """How the maps are made."""
        config = config or self.config
        return msgspec.structs.replace(
            self._about.provenance,
            model=ModelProvenance(
                name=config.model.name,
                labels=config.model.labels,
                preprocess=self._about.preprocess,
                sha256=hashes(self.files),
            ),
            target=str(config.lrp.target),
            device=self.device,
            settings=recorded_settings(config, *further),
        )


def _weights(target: TargetTensors, scores: np.ndarray, from_scores: bool) -> np.ndarray:
    """The weight of each class, float32 [classes], given the scores.

    With `from_scores` it is multiplied by the score where relevance starts.
    """
    weights: np.ndarray = target.weights[0]
    if target.rest.any():
        others = float((scores * (1 - weights)).sum())
        share = (1 - weights) / others if others else 0 * weights
        chosen = float((scores * weights).sum())
        against = chosen * share if from_scores else scores * share
        return np.asarray(weights - against, np.float32)
    best = np.argsort(-scores, kind="stable")[: int(target.top[0, 0])]
    t = np.zeros_like(weights)
    t[best] = weights[best]
    return t * scores if target.by_probability.any() and not from_scores else t
