"""Completion in bash of words with "=", which bash splits there.

Click expects whole words. Bash replaces only what follows the "=", so only that is printed.
"""

from click.shell_completion import BashComplete, CompletionItem, add_completion_class


class BashWords(BashComplete):
    """Bash's completion with `--set key=value` and `--option=value` in one piece."""

    _before_equals = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the cursor's and the one at the cursor, joined at "="."""
        before, typed = super().get_completion_args()
        words = [*before, typed]
        joined: list[str] = []
        for position, word in enumerate(words):
            if joined and (word == "=" or words[position - 1] == "="):
                joined[-1] += word
            else:
                joined.append(word)
        typed = joined.pop()
        if "=" in words[-2:]:
            self._before_equals = typed[: typed.rindex("=") + 1]
        return joined, typed

    def format_completion(self, item: CompletionItem) -> str:
        """The type and value of an item; the value without what stands before the "="."""
        return f"{item.type},{item.value.removeprefix(self._before_equals)}"


def install() -> None:
    """Makes click use this completion for bash."""
    add_completion_class(BashWords)
