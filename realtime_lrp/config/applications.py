"""The image classifiers of keras.applications. To add one, add a row to `APPLICATIONS`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """The folder of Keras's downloads."""
    return Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")) / "models"


@dataclass(frozen=True)
class Application:
    """A network of keras.applications that was trained on ImageNet's 1000 classes."""

    builder: str  # its name in keras.applications, such as "VGG16"
    preprocess: str  # how its training pictures were prepared, see `PREPROCESSING`
    # as https://keras.io/api/applications says; of MobileNetV3 four bytes a parameter, and Keras's
    # docstring
    megabytes: int  # the download's size
    top1: float  # per cent of ImageNet's validation photos that it names correctly
    file: str  # the name of its weights in Keras's cache folder
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of the builder

    @property
    def description(self) -> str:
        return f"{self.megabytes:4} MB, names {self.top1:.1f} % of ImageNet's photos"

    @property
    def weights(self) -> Path:
        """The path of its weights once Keras has downloaded them."""
        return cache_folder() / self.file


_END = "_weights_tf_dim_ordering_tf_kernels"


def _v3(size: str, megabytes: int, top1: float, minimalistic: bool = False) -> Application:
    """A MobileNetV3; the minimalistic ones lack squeeze-and-excite, hard-swish, 5 x 5 kernels."""
    file = f"{size.lower()}_minimalistic" if minimalistic else size.lower()
    return Application(
        f"MobileNetV3{size}", "none", megabytes, top1,
        f"weights_mobilenet_v3_{file}_224_1.0_float.h5",
        {"minimalistic": minimalistic, "input_shape": (224, 224, 3)},
    )  # fmt: skip


APPLICATIONS = {
    "vgg16": Application("VGG16", "caffe", 528, 71.3, f"vgg16{_END}.h5"),
    "vgg19": Application("VGG19", "caffe", 549, 71.3, f"vgg19{_END}.h5"),
    "mobilenet": Application("MobileNet", "tf", 16, 70.4, "mobilenet_1_0_224_tf.h5"),
    "mobilenet_v2": Application("MobileNetV2", "tf", 14, 71.3, f"mobilenet_v2{_END}_1.0_224.h5"),
    "mobilenet_v3_small": _v3("Small", 12, 68.1),
    "mobilenet_v3_large": _v3("Large", 22, 75.6),
    "mobilenet_v3_small_minimalistic": _v3("Small", 8, 61.9, minimalistic=True),
    "mobilenet_v3_large_minimalistic": _v3("Large", 16, 72.3, minimalistic=True),
    "efficientnet_b0": Application("EfficientNetB0", "none", 29, 77.1, "efficientnetb0.h5"),
    "efficientnet_b1": Application("EfficientNetB1", "none", 31, 79.1, "efficientnetb1.h5"),
    "efficientnet_b2": Application("EfficientNetB2", "none", 36, 80.1, "efficientnetb2.h5"),
    "efficientnet_b3": Application("EfficientNetB3", "none", 48, 81.6, "efficientnetb3.h5"),
    "efficientnet_b4": Application("EfficientNetB4", "none", 75, 82.9, "efficientnetb4.h5"),
    "efficientnet_b5": Application("EfficientNetB5", "none", 118, 83.6, "efficientnetb5.h5"),
    "efficientnet_b6": Application("EfficientNetB6", "none", 166, 84.0, "efficientnetb6.h5"),
    "efficientnet_b7": Application("EfficientNetB7", "none", 256, 84.3, "efficientnetb7.h5"),
    "efficientnet_v2_b0": Application("EfficientNetV2B0", "none", 29, 78.7, "efficientnetv2-b0.h5"),
    "efficientnet_v2_b1": Application("EfficientNetV2B1", "none", 34, 79.8, "efficientnetv2-b1.h5"),
    "efficientnet_v2_b2": Application("EfficientNetV2B2", "none", 42, 80.5, "efficientnetv2-b2.h5"),
    "efficientnet_v2_b3": Application("EfficientNetV2B3", "none", 59, 82.0, "efficientnetv2-b3.h5"),
    "efficientnet_v2_s": Application("EfficientNetV2S", "none", 88, 83.9, "efficientnetv2-s.h5"),
    "efficientnet_v2_m": Application("EfficientNetV2M", "none", 220, 85.3, "efficientnetv2-m.h5"),
    "efficientnet_v2_l": Application("EfficientNetV2L", "none", 479, 85.7, "efficientnetv2-l.h5"),
    "resnet50": Application("ResNet50", "caffe", 98, 74.9, f"resnet50{_END}.h5"),
    "resnet50_v2": Application("ResNet50V2", "tf", 98, 76.0, f"resnet50v2{_END}.h5"),
    "resnet101": Application("ResNet101", "caffe", 171, 76.4, f"resnet101{_END}.h5"),
    "resnet101_v2": Application("ResNet101V2", "tf", 171, 77.2, f"resnet101v2{_END}.h5"),
    "resnet152": Application("ResNet152", "caffe", 232, 76.6, f"resnet152{_END}.h5"),
    "resnet152_v2": Application("ResNet152V2", "tf", 232, 78.0, f"resnet152v2{_END}.h5"),
    "densenet121": Application("DenseNet121", "torch", 33, 75.0, f"densenet121{_END}.h5"),
    "densenet169": Application("DenseNet169", "torch", 57, 76.2, f"densenet169{_END}.h5"),
    "densenet201": Application("DenseNet201", "torch", 80, 77.3, f"densenet201{_END}.h5"),
    "convnext_tiny": Application("ConvNeXtTiny", "none", 109, 81.3, "convnext_tiny.h5"),
    "convnext_small": Application("ConvNeXtSmall", "none", 192, 82.3, "convnext_small.h5"),
    "convnext_base": Application("ConvNeXtBase", "none", 339, 85.3, "convnext_base.h5"),
    "convnext_large": Application("ConvNeXtLarge", "none", 755, 86.3, "convnext_large.h5"),
    "convnext_xlarge": Application("ConvNeXtXLarge", "none", 1310, 86.7, "convnext_xlarge.h5"),
    "inception_v3": Application("InceptionV3", "tf", 92, 77.9, f"inception_v3{_END}.h5"),
    "inception_resnet_v2": Application(
        "InceptionResNetV2", "tf", 215, 80.3, f"inception_resnet_v2{_END}.h5"
    ),
    "xception": Application("Xception", "tf", 88, 79.0, f"xception{_END}.h5"),
    "nasnet_mobile": Application("NASNetMobile", "tf", 23, 74.4, "nasnet_mobile.h5"),
    "nasnet_large": Application("NASNetLarge", "tf", 343, 82.5, "nasnet_large.h5"),
}
"""Lower-case name -> network."""
