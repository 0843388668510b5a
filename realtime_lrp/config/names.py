"""The names that settings may have: methods, composites, rules, networks, colour maps, keys.

They are plain text here so that checking a configuration, `--help` and completion need neither
TensorFlow nor Keras. A new name belongs here and in the table that implements it, in another room.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.errors import UsageError, unknown


@dataclass(frozen=True, eq=False)
class Names:
    """The legal names of one kind of thing; in the schema they mark the keys that take one."""

    kind: str
    included: tuple[str, ...]
    # module and attribute of the table that implements them, to which programs may add rows
    table: tuple[str, str] = ("", "")
    aliases: Mapping[str, str] = field(default_factory=dict)  # names in other software -> ours
    others: tuple["Names", ...] = ()  # further legal names
    open: bool = False  # other words, such as files, are legal too

    def listed(self) -> str:
        """The included names as words: "max or average"."""
        return f"{', '.join(self.included[:-1])} or {self.included[-1]}"

    def known(self) -> list[str]:
        """Every legal name, those that a Python program added included."""
        module, attribute = self.table
        own = getattr(sys.modules.get(module), attribute, self.included)
        return [*own, *(name for other in self.others for name in other.known())]

    def check(self, name: str) -> None:
        """Refuses a name that does not exist with the nearest legal one."""
        if name not in (known := self.known()):
            raise unknown(self.kind, name, known, self.aliases)


_METHODS = {
    "lrp": "",
    "guided_backprop": "The fine lines that excite the network; nearly the same for every class.",
    "grad_cam": "Which region speaks for the class; coarse, because it is the last feature map "
    "enlarged.",
    "smoothgrad": "The gradient with less noise, as the mean of noisy copies of the picture; slow, "
    "and does not show what the answer is made of.",
    "excitation_backprop": "What excites the network, bright pixels more than dark ones; nearly "
    "the same map for every class.",
    "integrated_gradients": "How the answer grows on the way from an empty picture to this one; "
    "slow, noisy, and another empty picture gives another map.",
    "gradient": "Where a small change of the picture would change the answer most, not what the "
    "answer is made of; noisy.",
    "input_x_gradient": "A first guess at each pixel's share in the answer; noisy, and a pixel "
    "gets nothing where preprocessing makes it 0.",
    "deconvnet": "Patterns that would excite the same neurons; points at the object worse than "
    "the others. Can be empty, because each ReLU drops what is below 0 on the way back.",
}
"""Method -> what its map shows and what it is weak at, in one sentence; the weak sides are measured
in docs/evaluation.md. A key goes through them in this order: what an audience understands first.
Of lrp the composite has a sentence."""

METHODS = Names(
    "method",
    tuple(_METHODS),
    ("realtime_lrp.relevance.maps.methods", "METHODS"),
    {
        "input_t_gradient": "input_x_gradient", "inputxgrad": "input_x_gradient",
        "integrads": "integrated_gradients", "ig": "integrated_gradients",
        "gradcam": "grad_cam", "guided_gradient": "guided_backprop", "deconv": "deconvnet",
        "saliency": "gradient",
    },
)  # fmt: skip

_COMPOSITES = {
    "zplus": "Everything in the picture that excites the network; nearly the same map for every "
    "class, so it hardly says why this class.",
    "epsilon": "What speaks for and against the class, exactly as the layers computed it; noisy: "
    "much of it is speckle.",
    "epsilon_plus": "What speaks for the class, with little noise; hardly shows what speaks "
    "against it.",
    "epsilon_plus_flat": "What speaks for the class, with little noise; dark and bright pixels "
    "count alike. Hardly shows what speaks against the class.",
    "epsilon_alpha2_beta1": "What speaks for the class and what against it, in sharp lines; covers "
    "less of the object and changes more from picture to picture.",
    "epsilon_alpha2_beta1_flat": "What speaks for the class and what against it, in sharp lines; "
    "dark and bright pixels count alike. Covers less of the object and changes more from picture "
    "to picture.",
    "epsilon_gamma_box": "What speaks for the class; evidence against it is weakened. The map is "
    "wrong if the network's preprocessing is set wrong.",
    "attnlrp": "For transformers: what speaks for and against the class, also by which patches "
    "attend to which; noisy. Without attention it is nearly epsilon.",
    "attnlrp_gamma": "As attnlrp, with evidence against the class weakened in layers with weights; "
    "steadier, and takes longer.",
    "cp_lrp": "For transformers: what speaks for and against the class, with unchanged attention; "
    "says nothing about why a patch attends to another.",
}
"""Composite -> its sentence, as of methods."""

COMPOSITES = Names(
    "composite",
    tuple(_COMPOSITES),
    ("realtime_lrp.relevance.rules.composites", "COMPOSITES"),
    {
        **dict.fromkeys(
            ("z_plus", "zPlus", "z+", "lrp.z_plus", "lrp.z_plus_fast", "lrp.alpha_1_beta_0_IB",
             "lrp.alpha_1_beta_0", "alpha_1_beta_0", "alpha1_beta0", "alpha1beta0"),
            "zplus",
        ),
        "lrp.epsilon": "epsilon",
        "lrp.epsilon_IB": "epsilon",
        "lrp.sequential_preset_a": "epsilon_plus",
        "lrp.sequential_preset_a_flat": "epsilon_plus_flat",
        "lrp.sequential_preset_b": "epsilon_alpha2_beta1",
        "lrp.sequential_preset_b_flat": "epsilon_alpha2_beta1_flat",
        "lrp.alpha_2_beta_1": "epsilon_alpha2_beta1",
        "lrp.alpha_2_beta_1_IB": "epsilon_alpha2_beta1",
        "lrp.flat": "epsilon_plus_flat",
        "deep_taylor.bounded": "epsilon_gamma_box",
        "AttnLRP": "attnlrp", "attn_lrp": "attnlrp", "CP-LRP": "cp_lrp", "cplrp": "cp_lrp",
    },
)  # fmt: skip
"""The names come from zennit and LXT, the aliases from iNNvestigate and this project's first
version."""

AUTO = "auto"  # the composite that suits the network

COMPOSITE = "zplus"
VIEWER_COMPOSITE = "epsilon_plus_flat"
ATTENTION_COMPOSITE = "attnlrp_gamma"
"""`lrp.composite: auto` stands for these: outside viewers, in viewers, and for attention.

In `evaluate` the second points as well as the first and takes as long. It depends on the class,
which the first does not, and is steadier from frame to frame than any other composite. The third
points best of those that depend on the class, on the one transformer that was measured."""

DETECTOR_COMPOSITE = "cp_lrp"
"""The same for detectors with attention. Of a D-FINE-nano of random weights it accounts for all
relevance but 1 %; under `attnlrp_gamma` more is lost than started."""

COMPOSITE_OR_AUTO = Names("composite", (AUTO,), aliases=COMPOSITES.aliases, others=(COMPOSITES,))
"""Legal values of `lrp.composite`."""

PANELS = Names(
    "panel", (), aliases={**METHODS.aliases, **COMPOSITES.aliases}, others=(COMPOSITES, METHODS)
)
"""Legal contents of a panel of the live viewer."""

ABOUT = _COMPOSITES | {name: text for name, text in _METHODS.items() if text}
"""The sentences of all composites and methods."""


ABOUT_RULES = {
    "zplus": "$a w$ where that is positive",
    "epsilon(epsilon)": "$a w$; `epsilon` (1e-6) keeps $z$ from 0; with `epsilon(0)` an output of "
    "exactly 0 passes nothing on",
    "gamma(gamma)": "$a w$, plus `gamma` (0.25) times $a w$ where it has the sign of the output",
    "alpha_beta(alpha, beta)": "`alpha` (2) times $a w$ where positive, less `beta` (1) times "
    "$a w$ where negative",
    "zbox": "for input layers: $a w$, less the smallest contribution that any value of the pixel "
    "could have made",
    "wsquare": "$w^2$, whatever the input",
    "flat": "the same for all inputs",
    "zplus_input": "$w$ where positive, whatever the input",
}
"""Rule, with the numbers that it takes -> what an input contributes to an output."""

RULE_PARAMETERS: dict[str, tuple[str, ...]] = {
    name: tuple(numbers) for name, *numbers in (re.findall(r"\w+", rule) for rule in ABOUT_RULES)
}
"""Rule -> the numbers that it takes in brackets, in this order."""

RULES = Names(
    "rule",
    tuple(RULE_PARAMETERS),
    ("realtime_lrp.relevance.rules.rules", "RULES"),
    {
        "z_plus": "zplus", "alpha1_beta0": "alpha_beta(1, 0)", "alpha2_beta1": "alpha_beta",
        "w_square": "wsquare", "w2": "wsquare", "z_box": "zbox", "bounded": "zbox", "zb": "zbox",
        "eps": "epsilon",
    },
)  # fmt: skip

NAMING = {
    "shapes": "hand-drawn symbols; embedded, no download",
    "shapes_vit": "the same symbols, a vision transformer; embedded, no download",
}
"""Embedded network that names one drawn symbol -> what `realtime-lrp models` says of it."""

EMBEDDED = {
    **NAMING,
    "shapes_detector": "finds several of these symbols, each with its box; embedded, no download",
}
"""Embedded network -> what `realtime-lrp models` says of it."""

MODELS = Names(
    "model", (*EMBEDDED, *APPLICATIONS), ("realtime_lrp.models.names", "NETWORKS"), open=True
)
WEIGHTS = Names("weights", ("imagenet", "random"), open=True)
TARGETS = Names("target", ("all", "top1", "top5"), open=True)

HUB = "hub:"  # how the names of KerasHub's presets begin: hub:NAME or hub:FOLDER

COLORMAPS = Names(
    "colormap",
    ("fire", "hot", "gray", "bwr", "coldnhot", "icefire"),
    ("realtime_lrp.view.look", "COLORMAPS"),
    {"grey": "gray", "seismic": "bwr"},
)

ABOUT_SOURCES = {
    "synthetic": "a moving disc, synthetic:60 with 60 pictures a second",
    "screen": "a screen, screen:2 the second one; with the window on it, it films itself",
}
"""Source with a name -> what it shows."""

SOURCES = Names(
    "source", tuple(ABOUT_SOURCES), ("realtime_lrp.video.sources", "SOURCES"), open=True
)


def parse_rule(
    text: str, parameters: Mapping[str, Sequence[str]] = RULE_PARAMETERS
) -> tuple[str, list[float]]:
    """The name and numbers of a rule such as "alpha_beta(1, 0)", perhaps fewer than it takes."""
    parts = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", str(text))
    name = parts[1] if parts else str(text)
    if not parts or name not in parameters:
        raise unknown(RULES.kind, name, parameters, RULES.aliases)
    takes = parameters[name]
    try:
        numbers = [float(number) for number in parts[2].split(",")] if parts[2] else []
        if len(numbers) > len(takes):
            raise ValueError
    except ValueError:
        expected = f"{name}({', '.join(takes)})" if takes else f"{name} without brackets"
        raise UsageError(f"Expected the rule as {expected}. Received {text!r}.", "rule") from None
    return name, numbers


def check_rule_numbers(rule: str, numbers: Mapping[str, float]) -> None:
    """Refuses numbers that are negative, infinite or NaN, and alpha - beta that is not 1."""
    for parameter, number in numbers.items():
        if not 0 <= number < float("inf"):
            raise UsageError(
                f"The rule {rule} needs {parameter} from 0 upwards. Received {number}.", "rule"
            )
    alpha = numbers.get("alpha")
    beta = numbers.get("beta")
    if alpha is not None and beta is not None and abs(alpha - beta - 1) > 1e-9:
        raise UsageError(
            f"The rule {rule} needs alpha - beta = 1, for example 2 and 1. "
            f"Received alpha {alpha} and beta {beta}.",
            "rule",
        )


def check_rule(text: str) -> None:
    """Refuses a rule that does not exist or does not take its numbers."""
    module = sys.modules.get(RULES.table[0])
    if named := getattr(module, "rule_named", None):  # knows the rules that a program added
        named(text)
        return
    name, numbers = parse_rule(text)
    given = dict(zip(RULE_PARAMETERS[name], numbers, strict=False))
    check_rule_numbers(name, {**_DEFAULTS.get(name, {}), **given})


_DEFAULTS = {"alpha_beta": {"alpha": 2.0, "beta": 1.0}}
