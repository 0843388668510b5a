"""What each composite and method shows and what it is weak at, in one sentence.

The live viewer and docs/methods.md take the sentences from here. The weak sides are measured in
docs/evaluation.md.
"""

ABOUT = {
    "zplus": "What in the picture excites the network at all; nearly the same map for every class, "
    "so it says little about why this one.",
    "epsilon": "What speaks for and against the class, exactly as the layers computed it; noisy, "
    "so much of it is speckle.",
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
    "cp_lrp": "For transformers: what speaks for and against the class, with attention as it is; "
    "says nothing about why a patch attends to another.",
    "gradient": "Where a small change of the picture would change the answer most, not what the "
    "answer is made of; noisy.",
    "input_x_gradient": "A first guess at each pixel's share in the answer; noisy, and a pixel "
    "gets nothing where preprocessing makes it 0.",
    "guided_backprop": "The fine lines that excite the network; nearly the same for every class.",
    "deconvnet": "Patterns that would excite the same neurons; points at the object worse than "
    "the others. Can be empty, because each ReLU drops what is below 0 on the way back.",
    "excitation_backprop": "What excites the network, bright pixels more than dark ones; nearly "
    "the same map for every class.",
    "grad_cam": "Which region speaks for the class; coarse, because it is the last feature map "
    "enlarged.",
    "smoothgrad": "The gradient with less noise, as the mean of noisy copies of the picture; slow, "
    "and still not what the answer is made of.",
    "integrated_gradients": "How the answer grows on the way from an empty picture to this one; "
    "slow, noisy, and another empty picture gives another map.",
    "attention": "For transformers: the patches that the last layer attends to; the same map for "
    "every class, and it says nothing about the layers before.",
    "attention_rollout": "For transformers: the patches that reach the answer by attention through "
    "all layers; the same map for every class, coarse, often with light on everything.",
}
"""Name -> sentence."""


def table() -> str:
    """All sentences as a table in Markdown."""
    rows = ["| composite or method | what its map shows; what it is weak at |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {text} |" for name, text in ABOUT.items())]) + "\n"
