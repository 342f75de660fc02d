"""The surrogate: calibrated forests over a ledger, split by program so that no task is on both sides of a fit.

Each probability is the mean of five forests (`CalibratedClassifierCV`), each fitted on four fifths of the programs and
calibrated on the fifth: by Platt's sigmoid (1999), or by isotonic regression from `ISOTONIC` examples on
(Niculescu-Mizil and Caruana 2005). How good that is, is measured on programs that the whole fit has not seen.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import StratifiedGroupKFold
from threadpoolctl import threadpool_limits

from kernelrl import __version__
from kernelrl.data.judged import Example, Text
from kernelrl.errors import UserError
from kernelrl.eval.surrogate.decision import MODEL, Prediction, Rule
from kernelrl.eval.surrogate.features import to_matrix, words
from kernelrl.records import write_atomically

FOLDS = 5
TREES = 100
ISOTONIC = 1000
"""Examples from which on calibration is isotonic: with fewer it overfits."""
MIN_TIMED = 20
"""Timed kernels without which no speedup is predicted."""
Target = Literal["compiled", "correct"]
TARGETS: tuple[Target, ...] = ("compiled", "correct")


@dataclass(frozen=True)
class Surrogate:
    """A fitted surrogate, and what it came to on programs that it had not seen."""

    classifiers: dict[Target, CalibratedClassifierCV]
    regressor: ExtraTreesRegressor | None
    dialects: frozenset[str]
    vocabulary: frozenset[str]
    unseen: Unseen
    version: str = __version__

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """A prediction per text."""
        if not texts:
            return []
        matrix = to_matrix(texts)
        compiled_N = _mean(_of_forests(self.classifiers["compiled"], matrix))
        correct_FN = _of_forests(self.classifiers["correct"], matrix)
        speedups_N = [None] * len(texts) if self.regressor is None else np.exp(self.regressor.predict(matrix)).tolist()
        return [
            Prediction(float(compiled), float(mean), float(most), self._novelty(text), speedup)
            for text, compiled, mean, most, speedup in zip(
                texts, compiled_N, _mean(correct_FN), correct_FN.max(axis=0), speedups_N, strict=True
            )
        ]

    def _novelty(self, text: Text) -> float:
        return 1.0 if text.dialect not in self.dialects else _share_new(words(text.kernel), self.vocabulary)

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MODEL, pickle.dumps((sklearn.__version__, self)))

    @classmethod
    def load(cls, folder: Path) -> Surrogate:
        """Read it.

        Raises:
            UserError: there is none, or it was fitted with other versions.
        """
        try:
            version, surrogate = pickle.loads((folder / MODEL).read_bytes())
        except FileNotFoundError:
            raise UserError(f"{folder}: no surrogate there; fit one: kernelrl surrogate RUN --out {folder}") from None
        except Exception as error:  # pickles of other versions fail in any way
            raise UserError(f"{folder / MODEL}: cannot be read ({error}); fit it again: kernelrl surrogate") from None
        made_by = (version, surrogate.version)
        if made_by != (sklearn.__version__, __version__):
            raise UserError(
                f"{folder / MODEL}: fitted by scikit-learn {version} and kernelrl {surrogate.version}; "
                "fit it again: kernelrl surrogate"
            )
        return surrogate  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Unseen:
    """Predictions for N examples by surrogates whose fit had no candidate of their programs."""

    compiled_N: NDArray[np.bool_]
    correct_N: NDArray[np.bool_]
    p_compiled_N: NDArray[np.float64]
    p_correct_N: NDArray[np.float64]
    most_N: NDArray[np.float64]
    """`Prediction.correct_most`."""
    novelty_N: NDArray[np.float64]
    log_speedup_M: NDArray[np.float64]
    """Of the M examples that were timed."""
    predicted_M: NDArray[np.float64]

    def threshold(self, max_loss: float) -> float:
        """The probability below which a candidate is refused, if that may cost this share of the right ones.

        Of n right candidates, at most `floor(max_loss (n + 1))` lie below it. A right candidate of a new program,
        exchangeable with these, is then refused with probability `max_loss` at most (split conformal prediction: Vovk
        et al. 2005; Angelopoulos and Bates 2021, eq. 1). Too few right ones to promise that: 0, nothing is refused.
        """
        right = np.sort(self.most_N[self.correct_N])
        rank = math.floor(max_loss * (right.size + 1))
        return float(right[rank - 1]) if rank else 0.0

    def rule(self, max_loss: float) -> Rule:
        """The rule that may refuse this share of the right candidates."""
        return Rule(self.threshold(max_loss), float(self.novelty_N.max(initial=0.0)))


def fit(examples: Sequence[Example], seed: int = 0, trees: int = TREES) -> Surrogate:
    """Fit a surrogate, and predict every example by one that has not seen its program.

    Raises:
        UserError: there are too few programs, or none or all of the candidates are right.
    """
    groups_N = np.array([example.text.program for example in examples])
    matrix = to_matrix([example.text for example in examples]) if examples else None
    labels = {name: np.array([getattr(example, name) for example in examples], dtype=bool) for name in TARGETS}
    _require(examples, groups_N, labels)
    with threadpool_limits(1):  # problems this small take ten times as long where threads wait for each other
        unseen = _cross_validate(examples, matrix, labels, groups_N, seed, trees)
        classifiers = {name: _classifier(matrix, labels[name], groups_N, seed, trees) for name in TARGETS}
        regressor = _regressor(matrix, examples, np.arange(len(examples)), seed, trees)
    return Surrogate(
        classifiers=classifiers,
        regressor=regressor,
        dialects=frozenset(example.text.dialect for example in examples),
        vocabulary=frozenset[str]().union(*(words(example.text.kernel) for example in examples)),
        unseen=unseen,
    )


def _require(examples: Sequence[Example], groups_N: NDArray[np.str_], labels: dict[Target, NDArray[np.bool_]]) -> None:
    for name, label_N in labels.items():
        for value in (True, False):
            if (programs := len(set(groups_N[label_N == value]))) < 2 * FOLDS:
                kind = name if value else f"not {name}"
                raise UserError(
                    f"surrogate: {kind} candidates for {programs} programs among {len(examples)} candidates; "
                    f"a fit that is split by program needs {2 * FOLDS}: give more runs"
                )


def _cross_validate(
    examples: Sequence[Example],
    matrix: Any,
    labels: dict[Target, NDArray[np.bool_]],
    groups_N: NDArray[np.str_],
    seed: int,
    trees: int,
) -> Unseen:
    num = len(examples)
    p_N, most_N = {name: np.empty(num) for name in TARGETS}, np.empty(num)
    novelty_N, log_N, predicted_N = np.empty(num), _logs(examples), np.full(num, np.nan)
    sets = [words(example.text.kernel) for example in examples]
    for train, test in _folds(matrix, labels["correct"], groups_N, seed):
        for name in TARGETS:
            model = _classifier(matrix[train], labels[name][train], groups_N[train], seed, trees)
            p_FN = _of_forests(model, matrix[test])
            p_N[name][test] = _mean(p_FN)
            if name == "correct":
                most_N[test] = p_FN.max(axis=0)
        known = frozenset[str]().union(*(sets[index] for index in train))
        novelty_N[test] = [_share_new(sets[index], known) for index in test]
        if regressor := _regressor(matrix, examples, train, seed, trees):
            predicted_N[test] = regressor.predict(matrix[test])
    timed_N = ~np.isnan(log_N) & ~np.isnan(predicted_N)
    return Unseen(
        compiled_N=labels["compiled"],
        correct_N=labels["correct"],
        p_compiled_N=p_N["compiled"],
        p_correct_N=p_N["correct"],
        most_N=most_N,
        novelty_N=novelty_N,
        log_speedup_M=log_N[timed_N],
        predicted_M=predicted_N[timed_N],
    )


def _classifier(
    matrix: Any, label_N: NDArray[np.bool_], groups_N: NDArray[np.str_], seed: int, trees: int
) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(
        ExtraTreesClassifier(n_estimators=trees, min_samples_leaf=2, max_features=0.1, random_state=seed),
        method="isotonic" if len(label_N) >= ISOTONIC else "sigmoid",
        cv=_folds(matrix, label_N, groups_N, seed),
    ).fit(matrix, label_N)


def _regressor(
    matrix: Any, examples: Sequence[Example], among: NDArray[np.int64], seed: int, trees: int
) -> ExtraTreesRegressor | None:
    log_N = _logs(examples)
    timed = among[~np.isnan(log_N[among])]
    if len(timed) < MIN_TIMED:
        return None
    model = ExtraTreesRegressor(n_estimators=trees, min_samples_leaf=2, max_features=0.3, random_state=seed)
    return model.fit(matrix[timed], log_N[timed])


def _folds(
    matrix: Any, label_N: NDArray[np.bool_], groups_N: NDArray[np.str_], seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Parts of programs, each with about the same share of right candidates, and the rest of each."""
    split: Callable[..., Any] = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed).split
    folds = list(split(matrix, label_N, groups_N))
    if any(len(set(label_N[part])) < 2 for fold in folds for part in fold):  # a rare outcome, all in some programs
        raise UserError("surrogate: an outcome is so rare that some fifth of the programs lacks it; give more runs")
    return folds


def _of_forests(model: CalibratedClassifierCV, matrix: Any) -> NDArray[np.float64]:
    """(F, N) the calibrated probability of each forest."""
    return np.stack([each.predict_proba(matrix)[:, 1] for each in model.calibrated_classifiers_])


def _mean(p_FN: NDArray[np.float64]) -> NDArray[np.float64]:
    mean_N: NDArray[np.float64] = p_FN.mean(axis=0)
    return mean_N


def _logs(examples: Sequence[Example]) -> NDArray[np.float64]:
    """(N,) logarithm of the speedup; NaN: not measured."""
    return np.array([np.nan if it.log_speedup is None else it.log_speedup for it in examples], dtype=np.float64)


def _share_new(found: set[str], known: frozenset[str]) -> float:
    return len(found - known) / max(1, len(found))
