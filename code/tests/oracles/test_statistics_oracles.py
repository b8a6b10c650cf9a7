"""The statistics room against scipy, statsmodels, scikit-learn and independent closed forms."""

from __future__ import annotations

import importlib
import importlib.util
import math
import pathlib
import random
import sys
import unittest
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import main

Known = TypeVar("Known")


def known(value: Known | None) -> Known:
    """The value, where None would be a failure."""
    assert value is not None
    return value


def needs(library: str) -> Any:
    present = importlib.util.find_spec(library) is not None
    return unittest.skipUnless(present, f"the oracle {library} is not installed")


@needs("scipy")
class Scipy(unittest.TestCase):
    stats: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.stats = importlib.import_module("scipy.stats")

    def test_mcnemar_is_the_binomial_test(self) -> None:
        pairs = [(b, c) for b in range(12) for c in range(12) if b + c]
        pairs += [(560, 442), (9000, 8600), (1_001_386, 998_614), (1_004_000, 996_000)]
        for b, c in pairs:
            expected = self.stats.binomtest(b, b + c).pvalue
            self.assertAlmostEqual(main.mcnemar_exact(b, c) / expected, 1, delta=1e-9)

    def test_wilson(self) -> None:
        for n in (1, 2, 7, 50, 999):
            for k in {0, 1, n // 3, n - 1, n}:
                for confidence in (0.8, 0.95, 0.999):
                    test = self.stats.binomtest(k, n)
                    expected = test.proportion_ci(confidence, method="wilson")
                    found = known(main.wilson_interval(k, n, confidence))
                    self.assertAlmostEqual(found.low, expected.low, delta=1e-12)
                    self.assertAlmostEqual(found.high, expected.high, delta=1e-12)

    def test_fisher(self) -> None:
        rng = random.Random(1)
        for scale in (3, 10, 60):
            for _ in range(40):
                a, b, c, d = (rng.randint(0, scale) for _ in range(4))
                expected = self.stats.fisher_exact([[a, b], [c, d]]).pvalue
                self.assertAlmostEqual(main.fisher_exact(a, b, c, d), expected, delta=1e-9)

    def test_sign_flip_is_the_exact_paired_permutation_test(self) -> None:
        rng = random.Random(2)
        for n in (3, 8, 12):
            for samples in (1, 4, 5):
                steps = [rng.randint(-samples, samples) for _ in range(n)]
                expected = self.stats.permutation_test(
                    (steps,), sum, permutation_type="samples", n_resamples=math.inf
                ).pvalue
                found = main.sign_flip_test([Fraction(step, samples) for step in steps])
                # scipy doubles the smaller tail, which for a symmetric law is the two-sided p
                self.assertAlmostEqual(found, expected, delta=1e-12)

    def test_power_from_scipys_binomials(self) -> None:
        for n, drop, discordance in ((60, 0.1, 0.3), (168, 0.1, 0.2), (39, 0.2, 0.2)):
            expected = 0.0
            for m in range(n + 1):
                rejected = [
                    b for b in range(m // 2 + 1, m + 1) if self.stats.binom.cdf(m - b, m, 0.5) * 2 < 0.05
                ]
                if rejected:
                    share = (discordance + drop) / (2 * discordance)
                    tail = self.stats.binom.sf(rejected[0] - 1, m, share)
                    expected += self.stats.binom.pmf(m, n, discordance) * tail
            self.assertAlmostEqual(main.power(n, drop, discordance), expected, delta=1e-9)

    def test_tango_by_roots_of_the_score_from_the_closed_form_of_the_nuisance(self) -> None:
        optimize = importlib.import_module("scipy.optimize")
        z = self.stats.norm.ppf(0.975)

        def score(delta: float, b: int, c: int, n: int, shift: float) -> float:
            # Tango 1998, equations 6 to 8: b improved, c regressed
            middle = -b - c + (2 * n - b + c) * delta
            root = math.sqrt(max(0.0, middle**2 + 8 * n * c * delta * (1 - delta)))
            nuisance = (root - middle) / (4 * n)
            variance = n * (2 * nuisance + delta * (1 - delta))
            return (b - c - n * delta) / math.sqrt(variance) + shift

        for n in (2, 5, 20, 200):
            for b in range(min(n, 9) + 1):
                for c in range(min(n - b, 9) + 1):
                    mean, edge = (b - c) / n, 1e-12
                    found = main.effect_interval([1] * b + [-1] * c + [0] * (n - b - c))
                    if mean > -1:
                        low = optimize.brentq(score, edge - 1, mean - edge, (b, c, n, -z), xtol=1e-13)
                        self.assertAlmostEqual(found.low, low, delta=1e-9)
                    if mean < 1:
                        high = optimize.brentq(score, mean + edge, 1 - edge, (b, c, n, z), xtol=1e-13)
                        self.assertAlmostEqual(found.high, high, delta=1e-9)

    def test_the_tilted_distribution_is_the_likeliest_by_direct_search(self) -> None:
        optimize = importlib.import_module("scipy.optimize")
        points = [(-0.6, 2), (-0.2, 3), (0.0, 4), (0.4, 1)]
        values = [-1.0, *(value for value, _ in points), 1.0]
        counts = [0, *(count for _, count in points), 0]
        for tilt in (0.1, 0.8, 1.3, 1.7):
            delta, variance = main._tilted(points, tilt)
            mean = optimize.LinearConstraint([[1] * 6, values], [1, delta], [1, delta])
            solved = optimize.minimize(
                lambda w: -sum(k * math.log(max(p, 1e-12)) for k, p in zip(counts, w) if k),
                [1 / 6] * 6, bounds=[(0, 1)] * 6, constraints=[mean], method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 1000},
            )  # fmt: skip
            expected = sum(p * (v - delta) ** 2 for p, v in zip(solved.x, values))
            self.assertAlmostEqual(variance, expected, delta=1e-4)


@needs("statsmodels")
class Statsmodels(unittest.TestCase):
    def test_mcnemar(self) -> None:
        tables = importlib.import_module("statsmodels.stats.contingency_tables")
        for b, c in ((6, 0), (9, 2), (1, 12), (40, 61), (5, 5)):
            expected = tables.mcnemar([[10, b], [c, 10]], exact=True).pvalue
            self.assertAlmostEqual(main.mcnemar_exact(b, c), expected, delta=1e-12)

    def test_holm(self) -> None:
        multitest = importlib.import_module("statsmodels.stats.multitest")
        rng = random.Random(3)
        for m in (1, 2, 5, 12):
            p_values = [rng.random() ** 3 for _ in range(m)]
            expected = multitest.multipletests(p_values, method="holm")[1]
            for found, value in zip(main.holm(p_values), expected):
                self.assertAlmostEqual(found, value, delta=1e-12)

    def test_kappa_interval_nears_fleiss_cohen_everitt_with_many_items(self) -> None:
        inter_rater = importlib.import_module("statsmodels.stats.inter_rater")
        expected = inter_rater.cohens_kappa([[40_000, 5000], [5000, 30_000]])
        found = known(main.cohen_kappa(40_000, 5000, 5000, 30_000))
        self.assertAlmostEqual(found.value, expected.kappa, delta=1e-12)
        self.assertAlmostEqual(found.low, expected.kappa_low, delta=1e-4)
        self.assertAlmostEqual(found.high, expected.kappa_upp, delta=1e-4)


@needs("sklearn")
class ScikitLearn(unittest.TestCase):
    def test_kappa(self) -> None:
        metrics = importlib.import_module("sklearn.metrics")
        for counts in ((20, 5, 10, 15), (3, 1, 0, 9), (0, 4, 5, 0), (8, 2, 0, 0), (50, 0, 0, 2)):
            judge = [1] * counts[0] + [1] * counts[1] + [0] * counts[2] + [0] * counts[3]
            human = [1] * counts[0] + [0] * counts[1] + [1] * counts[2] + [0] * counts[3]
            expected = metrics.cohen_kappa_score(judge, human)
            self.assertAlmostEqual(known(main.cohen_kappa(*counts)).value, expected, delta=1e-12)


if __name__ == "__main__":
    unittest.main()
