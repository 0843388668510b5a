"""Maps HDR and wide colours to an SDR screen's, as a table for FFmpeg's filter `lut3d`.

FFmpeg's own way needs its filter `zscale`, which PyAV's wheel does not have.
"""

import functools

import numpy as np

from realtime_lrp.video.frames import HLG, PQ, Colour

WHITE_NITS = 203.0  # what white is in HDR (ITU-R BT.2408)
PEAK = 1000 / WHITE_NITS  # the brightest light that stays below white; also HLG's peak
KNEE = 0.8  # light up to this share of white keeps its brightness
SDR_GAMMA = 2.4  # ITU-R BT.1886
NODES = 33  # the table's length along each colour

_BT2020 = ((1.6605, -0.5876, -0.0728), (-0.1246, 1.1329, -0.0083), (-0.0182, -0.1006, 1.1187))
_P3 = ((1.2249, -0.2247, 0.0), (-0.0420, 1.0419, 0.0), (-0.0197, -0.0786, 1.0979))
_TO_BT709 = {9: _BT2020, 11: _P3, 12: _P3}
"""Wide primaries of ITU-T H.273 -> matrix from their linear RGB to BT.709's linear RGB."""


def is_wide(colour: Colour) -> bool:
    """Whether an SDR screen would show such colours wrongly."""
    return colour.transfer in (PQ, HLG) or colour.primaries in _TO_BT709


def _light(signal: np.ndarray, transfer: int) -> np.ndarray:
    """Linear light of RGB in 0 to 1; white is 1. HLG is for a screen of 1000 cd/m2, as `zscale`."""
    if transfer == PQ:
        root = signal ** (32 / 2523)
        share = np.maximum(root - 0.8359375, 0) / (18.8515625 - 18.6875 * root)
        return np.asarray(10000 / WHITE_NITS * share ** (16384 / 2610))
    if transfer != HLG:
        return np.asarray(signal**SDR_GAMMA)
    bright = np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892
    scene = np.where(signal <= 0.5, 4 * signal**2, bright) / 12
    return np.asarray(PEAK * scene**1.2)


def to_sdr(signal: np.ndarray, transfer: int, primaries: int) -> np.ndarray:
    """RGB of BT.709 in 0 to 1, [..., 3], for RGB with these H.273 numbers; HDR is mostly BT.2020.

    Light above `KNEE` is compressed, up to `PEAK`, by the curve of FFmpeg's `tonemap=mobius`.
    """
    light = _light(signal, transfer) @ np.array(_TO_BT709.get(primaries, _BT2020)).T
    brightest = np.maximum(light.max(-1, keepdims=True), 1e-9)
    if transfer in (PQ, HLG):
        a = -(KNEE**2) * (PEAK - 1) / (KNEE**2 - 2 * KNEE + PEAK)
        b = (KNEE**2 - 2 * KNEE * PEAK + PEAK) / (PEAK - 1)
        mapped = (b + KNEE) ** 2 / (b - a) * (brightest + a) / (brightest + b)
        light = light * np.where(brightest > KNEE, mapped / brightest, 1)
    return np.clip(light, 0, 1) ** (1 / SDR_GAMMA)


@functools.cache
def sdr_table(transfer: int, primaries: int) -> str:
    """The table of `to_sdr` in the format of .cube files, which `lut3d` reads."""
    axis = np.linspace(0, 1, NODES)
    blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")  # red changes fastest
    colours = to_sdr(np.stack([red, green, blue], -1).reshape(-1, 3), transfer, primaries)
    lines = (f"{red:.6f} {green:.6f} {blue:.6f}" for red, green, blue in colours.tolist())
    return "\n".join([f"LUT_3D_SIZE {NODES}", *lines, ""])
