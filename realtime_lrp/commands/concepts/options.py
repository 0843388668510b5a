"""The options of `concepts` besides the configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.commands.concepts.crops import SIDE
from realtime_lrp.errors import UsageError


@dataclass(frozen=True)
class ConceptOptions:
    """What is asked for on the command line besides the configuration.

    Attributes:
      inputs: pictures and recordings: files, folders, globs.
      images: a further folder of pictures, or None.
      output: the gallery that is made, or None.
      layers: names of layers with commas between them; None is the configured one, or the last.
      every: seconds between the frames that are taken of a recording.
      count: how many drawn pictures are used, for the embedded networks; None for all.
      sheet: a picture of the whole gallery, or None.
      overwrite: existing files may be replaced.
      side: rows and columns of the crops.
      network_given: whether the configuration or the command line names a network.
    """

    inputs: Sequence[str] = ()
    images: Path | None = None
    output: Path | None = None
    layers: str | None = None
    every: float = 1.0
    count: int | None = None
    sheet: Path | None = None
    overwrite: bool = False
    side: int = SIDE
    network_given: bool = False

    def check(self, names: bool) -> None:
        """Refuses options that do not go together.

        Args:
          names: whether a file of names is written.

        Raises:
          UsageError: it says what to leave out or to add.
        """
        reads = bool(self.inputs or self.images)
        if self.output is None:
            if reads or self.layers or self.count:
                raise UsageError(
                    "Nothing says where the gallery goes. Add -o FILE.concepts, or leave pictures, "
                    "--layers and --count out."
                )
            if not (names or self.sheet):
                raise UsageError(
                    "There is nothing to do. Make a gallery with -o FILE.concepts; of one that "
                    "exists, --names FILE writes names to fill in and --sheet FILE a picture."
                )
        if reads and self.count:
            raise UsageError("--count is for drawn pictures. Leave it out, or the pictures.")
