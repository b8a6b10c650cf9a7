"""The statistics room: reference values, laws that must hold, and what it refuses."""

from __future__ import annotations

import doctest
import itertools
import math
import pathlib
import random
import sys
import time
import unittest
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import main

Known = TypeVar("Known")


def known(value: Known | None) -> Known:
    """The value, where None would be a failure."""
    assert value is not None
    return value


def listed_sign_flip(differences: Sequence[Fraction]) -> Fraction:
    """The sign-flip p by writing out every pattern."""
    observed = abs(sum(differences, Fraction(0)))
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    extreme = sum(
        abs(sum((s * value for s, value in zip(signs, differences)), Fraction(0))) >= observed
        for signs in patterns
    )
    return Fraction(extreme, len(patterns))


def fifths(rng: random.Random, n: int, samples: int = 5) -> list[Fraction]:
    return [Fraction(rng.randint(-samples, samples), samples) for _ in range(n)]


class Wilson(unittest.TestCase):
    def test_the_ends_are_exactly_zero_and_one_and_no_trial_has_no_interval(self) -> None:
        # scipy 1.17.1, binomtest(k, n).proportion_ci(method="wilson")
        for k, n, low, high in (
            (0, 10, 0.0, 0.2775327998628892),
            (10, 10, 0.7224672001371107, 1.0),
            (38, 38, 0.908190131774416, 1.0),
            (0, 77, 0.0, 0.04751842528243408),
            (1, 1, 0.20654931437723745, 1.0),
            (0, 1_000_000, 0.0, 3.841444063944942e-06),
        ):
            with self.subTest(k=k, n=n):
                found = known(main.wilson_interval(k, n))
                self.assertAlmostEqual(found.low, low, delta=1e-12)
                self.assertAlmostEqual(found.high, high, delta=1e-12)
                self.assertEqual((found.low == 0, found.high == 1), (k == 0, k == n))
        self.assertIsNone(main.wilson_interval(0, 0))

    def test_a_higher_confidence_is_wider(self) -> None:
        narrow = known(main.wilson_interval(7, 10, 0.9))
        wide = known(main.wilson_interval(7, 10, 0.99))
        self.assertTrue(wide.low < narrow.low < 0.7 < narrow.high < wide.high)

    def test_impossible_counts_and_confidences_are_refused(self) -> None:
        for arguments in ((3, 2), (-1, 2), (0, -1), (1, 2, 0.0), (1, 2, 1.0), (1, 2, -0.5)):
            with self.subTest(arguments), self.assertRaises(ValueError):
                main.wilson_interval(*arguments)


class PassAtK(unittest.TestCase):
    def test_values_stay_exact_for_thousands_of_samples(self) -> None:
        # Chen et al. 2021, formula 1, in exact fractions
        for n, c, k, expected in (
            (10, 3, 1, 0.3),
            (10, 3, 5, 11 / 12),
            (5, 0, 5, 0.0),
            (200, 1, 1, 0.005),
            (200, 1, 100, 0.5),
            (2000, 1000, 1000, 1.0),
            (10_000, 1, 5000, 0.5),
        ):
            with self.subTest(n=n, c=c, k=k):
                self.assertAlmostEqual(main.pass_at_k(n, c, k), expected, delta=1e-12 * expected)

    def test_a_suite_is_the_mean_over_its_cases(self) -> None:
        # by hand: one of two samples passes in the first case, none in the second
        rates = [main.pass_at_k(2, c, 1) for c in (1, 0)]
        self.assertEqual(sum(rates) / 2, 0.25)

    def test_both_equal_the_count_over_all_choices(self) -> None:
        for n in range(1, 8):
            for c, k in itertools.product(range(n + 1), range(1, n + 1)):
                chosen = [set(pick) for pick in itertools.combinations(range(n), k)]
                some = sum(any(i < c for i in pick) for pick in chosen) / len(chosen)
                every = sum(all(i < c for i in pick) for pick in chosen) / len(chosen)
                self.assertAlmostEqual(main.pass_at_k(n, c, k), some, delta=1e-15)
                self.assertAlmostEqual(main.pass_hat_k(n, c, k), every, delta=1e-15)

    def test_all_of_k_needs_k_passes(self) -> None:
        self.assertEqual(main.pass_hat_k(5, 2, 3), 0.0)
        self.assertEqual(main.pass_hat_k(5, 5, 5), 1.0)
        # by hand: C(9999, 5000) / C(10000, 5000) = 1/2
        self.assertAlmostEqual(main.pass_hat_k(10_000, 9999, 5000), 0.5, delta=1e-15)

    def test_nonsense_is_refused(self) -> None:
        for arguments in ((3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1), (0, 0, 0)):
            for function in (main.pass_at_k, main.pass_hat_k):
                with self.subTest(arguments), self.assertRaises(ValueError):
                    function(*arguments)


class McNemar(unittest.TestCase):
    def test_a_tie_or_no_discordant_case_gives_exactly_one(self) -> None:
        # 2 * tail exceeds 1 for (1, 1) and is 0/0 in the chi-square form for (0, 0)
        for b, c in ((0, 0), (1, 0), (1, 1), (5, 5), (501, 500), (700, 700), (10**6, 10**6)):
            self.assertEqual(main.mcnemar_exact(b, c), 1.0, (b, c))

    def test_small_values_are_dyadic_and_exact(self) -> None:
        # by hand: 2 * sum C(n, i) / 2**n; R binom.test and scipy binomtest agree
        for b, c, p in (
            (5, 0, 0.0625),
            (6, 0, 0.03125),
            (7, 1, 0.0703125),
            (8, 1, 0.0390625),
            (9, 2, 0.0654296875),
            (10, 2, 0.03857421875),
            (3, 11, 0.057373046875),
            (12, 3, 0.03515625),
            (1, 12, 0.00341796875),
        ):
            self.assertEqual(main.mcnemar_exact(b, c), p, (b, c))

    def test_a_p_equal_to_alpha_is_met_exactly_and_does_not_reject(self) -> None:
        # lgamma gives 0.031250000000000014; the rule is p < alpha
        self.assertFalse(main.mcnemar_exact(6, 0) < 0.03125)
        self.assertFalse(main.mcnemar_exact(5, 0) < 0.0625)

    def test_two_million_discordant_cases_keep_nine_digits_within_a_second(self) -> None:
        # scipy 1.17.1 binomtest; the normal approximation puts the second on the wrong side
        started = time.perf_counter()
        for b, c, p in (
            (1_001_000, 999_000, 0.15750684732),
            (1_001_386, 998_614, 0.05006676549),
            (1_001_387, 998_613, 0.04990150189),
        ):
            self.assertAlmostEqual(main.mcnemar_exact(b, c), p, delta=1e-10 * p + 5e-12)
        self.assertLess(time.perf_counter() - started, 1.0)

    def test_integers_and_ratios_agree_where_they_meet(self) -> None:
        for b, c in ((501, 501), (560, 442), (700, 302), (1000, 2), (1002, 0), (600, 403)):
            n = b + c
            whole = 2 * sum(math.comb(n, i) for i in range(min(b, c) + 1))
            self.assertAlmostEqual(main.mcnemar_exact(b, c) / min(1, whole / 2**n), 1, delta=1e-12)

    def test_a_far_tail_is_relative_not_absolute(self) -> None:
        # closed form 2 * 2**-60; an absolute slack of 1e-9 would add likelier outcomes
        self.assertEqual(main.mcnemar_exact(0, 60), 2**-59)

    def test_a_p_that_underflows_is_the_smallest_float_and_not_zero(self) -> None:
        for b, c in ((2_000_000, 0), (5000, 10), (1_500_000, 500_000)):
            self.assertEqual(main.mcnemar_exact(b, c), sys.float_info.min)

    def test_a_negative_count_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            main.mcnemar_exact(-1, 3)


class SignFlip(unittest.TestCase):
    def test_ties_count_however_the_decimals_are_written(self) -> None:
        # by hand over 16 patterns; float sums miss the ties and give 0.25 and 0.625
        tenth = Fraction(1, 10)
        for differences, p in (
            ([0.1, 0.1, 0.1, -0.1], 0.625),
            (["0.1", "0.1", "1/10", "-0.1"], 0.625),
            ([tenth, tenth, tenth, -tenth], 0.625),
            ([0.1, 0.1, 0.1, -0.2], 1.0),
            ([1, 0, 0, 0], 1.0),
            ([0, 0, 0, 0], 1.0),
            ([], 1.0),
        ):
            self.assertEqual(main.sign_flip_test(differences), p, differences)

    def test_it_equals_every_pattern_written_out_up_to_fourteen_differences(self) -> None:
        rng = random.Random(4)
        for n in (1, 2, 3, 5, 8, 10, 14):
            differences = fifths(rng, n, 7)
            found = main.sign_flip_test(differences)
            self.assertAlmostEqual(found, float(listed_sign_flip(differences)), delta=1e-15)

    def test_unlike_denominators_are_listed_exactly(self) -> None:
        differences = [Fraction(1, prime) for prime in (2, 3, 5, 7, 11, 13, 101, 9973, 99991)]
        differences[0] = -differences[0]
        found = main.sign_flip_test(differences)
        self.assertEqual(found, float(listed_sign_flip(differences)))

    def test_one_sample_per_case_is_mcnemar_at_any_size(self) -> None:
        for b, c, still in ((6, 0, 14), (9, 2, 3), (40, 20, 100), (5200, 4800, 0)):
            differences = [-1] * b + [1] * c + [0] * still
            self.assertEqual(main.sign_flip_test(differences), main.mcnemar_exact(b, c))

    def test_counting_and_fourier_agree_to_twelve_digits(self) -> None:
        rng = random.Random(7)
        for n, samples in ((1, 3), (6, 2), (40, 5), (150, 5), (300, 3)):
            steps = [rng.randint(-samples, samples) or 1 for _ in range(n)]
            observed = abs(sum(steps)) or 1
            sizes = [abs(step) for step in steps]
            observed += (sum(sizes) - observed) % 2
            counted = main._p_by_counting(sizes, (sum(sizes) - observed) // 2)
            fourier = main._p_by_fourier({a: sizes.count(a) for a in set(sizes)}, observed)
            self.assertAlmostEqual(counted, fourier, delta=1e-12)

    def test_listing_and_counting_agree(self) -> None:
        for sizes, limit in (([1, 2, 3, 4], 3), ([5, 7, 9], 0), ([2, 2, 3, 8, 9], 10)):
            counted, listed = main._p_by_counting(sizes, limit), main._p_by_listing(sizes, limit)
            self.assertEqual(counted, listed)

    def test_a_lone_huge_difference_costs_nothing(self) -> None:
        # by hand: all of one sign, so only the two uniform patterns are as extreme
        differences = [Fraction(1, 10**9 + i) for i in range(30)]
        self.assertEqual(main.sign_flip_test(differences), 2**-29)

    def test_a_group_flips_as_one(self) -> None:
        # by hand: group sums 3, 1, 1: the patterns with |sum| >= 5 are 2 of 8
        self.assertEqual(main.sign_flip_test([1, 1, 1, 1, 1], ["a", "a", "a", "b", "c"]), 0.25)
        self.assertEqual(main.sign_flip_test([-1] * 30, ["only"] * 30), 1.0)

    def test_a_case_without_a_group_stands_alone(self) -> None:
        self.assertEqual(main.sign_flip_test([1] * 6, [None] * 6), main.sign_flip_test([1] * 6))

    def test_copies_of_one_sample_are_no_evidence(self) -> None:
        # ten cases with twenty identical samples each are ten pairs, not two hundred
        differences = [Fraction(20, 20)] * 4 + [Fraction(0, 20)] * 6
        self.assertEqual(main.sign_flip_test(differences), 0.125)

    def test_a_hundred_thousand_five_sample_cases_take_under_two_seconds(self) -> None:
        differences = [Fraction(i % 11 - 5, 5) for i in range(100_000)]
        differences[0] = Fraction(1)
        started = time.perf_counter()
        p = main.sign_flip_test(differences)
        self.assertLess(time.perf_counter() - started, 2.0)
        # normal limit: |sum| is some 2 of a standard deviation of 200, ties aside
        self.assertTrue(0.95 < p < 1, p)

    def test_a_p_the_fourier_form_cannot_resolve_is_its_floor(self) -> None:
        differences = [Fraction(1 + i % 3, 5) * (1 if i % 3 else -1) for i in range(20_000)]
        self.assertEqual(main.sign_flip_test(differences), main.P_FLOOR)

    def test_it_is_the_same_whatever_the_order_and_the_direction(self) -> None:
        differences = fifths(random.Random(3), 60)
        p = main.sign_flip_test(differences)
        self.assertEqual(main.sign_flip_test(differences[::-1]), p)
        self.assertEqual(main.sign_flip_test([-value for value in differences]), p)

    def test_nan_uneven_groups_and_a_hopeless_denominator_are_refused(self) -> None:
        many = [Fraction((-1) ** i, 10**9 + i) for i in range(31)]
        for arguments in (([math.nan, 1],), (["inf"],), ([1, 1], ["a"]), (many,)):
            with self.subTest(str(arguments)[:40]), self.assertRaises(ValueError):
                main.sign_flip_test(*arguments)


class EffectInterval(unittest.TestCase):
    def test_one_sample_per_case_is_tango(self) -> None:
        # Fagerland, Lydersen and Laake 2014: airway hyper-responsiveness, complete response
        for regressed, improved, n, low, high in ((7, 1, 21, -0.517, -0.026), (16, 6, 161, -0.124, -0.005)):
            still = n - regressed - improved
            found = main.effect_interval([-1] * regressed + [1] * improved + [0] * still)
            self.assertEqual([round(limit, 3) for limit in found], [low, high])

    def test_without_a_discordant_case_it_still_has_width(self) -> None:
        # closed form of Tango's limit at b = c = 0: z**2 / (n + z**2)
        for n in (1, 20, 500):
            limit = 1.959963984540054**2 / (n + 1.959963984540054**2)
            low, high = main.effect_interval([0] * n)
            self.assertAlmostEqual(low, -limit, delta=1e-12)
            self.assertAlmostEqual(high, limit, delta=1e-12)

    def test_no_data_however_uniform_gives_zero_width(self) -> None:
        for value in (-1, "-3/5", 0, "1/5", 1):
            for n in (1, 2, 50):
                low, high = main.effect_interval([value] * n)
                self.assertTrue(-1 <= low < high <= 1, (value, n))
                self.assertTrue(low <= float(Fraction(value)) <= high)

    def test_negated_differences_mirror_it(self) -> None:
        differences = fifths(random.Random(8), 40)
        low, high = main.effect_interval(differences)
        mirrored = main.effect_interval([-value for value in differences])
        self.assertAlmostEqual(mirrored.low, -high, delta=1e-12)
        self.assertAlmostEqual(mirrored.high, -low, delta=1e-12)

    def test_many_cases_approach_the_normal_interval(self) -> None:
        differences = fifths(random.Random(9), 20_000)
        mean = sum(differences) / len(differences)
        variance = float(sum(value * value for value in differences)) / len(differences)
        half = 1.959963984540054 * math.sqrt((variance - float(mean) ** 2) / len(differences))
        low, high = main.effect_interval(differences)
        self.assertAlmostEqual(low, float(mean) - half, delta=1e-5)
        self.assertAlmostEqual(high, float(mean) + half, delta=1e-5)

    def test_copies_within_a_group_add_no_precision(self) -> None:
        alone = [-1, -1, -1, 0, 0, 0, 0, 0, 1, 0]
        copied = [value for value in alone for _ in range(7)]
        grouped = main.effect_interval(copied, [i // 7 for i in range(70)])
        for found, expected in zip(grouped, main.effect_interval(alone)):
            self.assertAlmostEqual(found, expected, delta=1e-12)

    def test_groups_of_one_change_nothing(self) -> None:
        differences = fifths(random.Random(5), 30)
        self.assertEqual(main.effect_interval(differences, range(30)), main.effect_interval(differences))

    def test_unequal_groups_hold_the_mean(self) -> None:
        differences = [-1] * 9 + [1, 0, 0, 1]
        low, high = main.effect_interval(differences, ["big"] * 9 + [None] * 4)
        self.assertTrue(-1 <= low < sum(differences) / 13 < high <= 1)

    def test_a_hundred_thousand_cases_are_quick(self) -> None:
        differences = [Fraction(i % 11 - 5, 5) for i in range(100_000)]
        started = time.perf_counter()
        main.effect_interval(differences)
        self.assertLess(time.perf_counter() - started, 2.0)

    def test_what_is_no_difference_of_rates_is_refused(self) -> None:
        for arguments in (([],), ([1.5],), (["-1.01"],), ([1], None, 1.0), ([1, 1], ["a"])):
            with self.subTest(arguments), self.assertRaises(ValueError):
                main.effect_interval(*arguments)


class Discordance(unittest.TestCase):
    def test_the_fewest_discordant_cases_that_can_reach_alpha(self) -> None:
        # by hand: 2 / 2**n < alpha, strictly, so 0.03125 needs a seventh
        for alpha, n in ((0.05, 6), (0.0625, 6), (0.03125, 7), (0.01, 8), (0.9, 2)):
            self.assertEqual(main.min_discordant_for(alpha), n)

    def test_an_alpha_that_is_no_level_is_refused(self) -> None:
        for alpha in (0.0, 1.0, -0.1, math.nan):
            with self.assertRaises(ValueError):
                main.min_discordant_for(alpha)


class Fisher(unittest.TestCase):
    def test_four_of_five_against_five_of_five_shows_nothing(self) -> None:
        # by hand: both tables with these margins are equally likely
        self.assertEqual(main.fisher_exact(4, 1, 5, 0), 1.0)

    def test_values(self) -> None:
        # the lady tasting tea: 2 * (1 + 16) / 70 by hand; the second from scipy 1.17.1
        self.assertAlmostEqual(main.fisher_exact(3, 1, 1, 3), 34 / 70, delta=1e-15)
        self.assertAlmostEqual(main.fisher_exact(8, 2, 1, 5), 0.03496503496503495, delta=1e-15)

    def test_an_empty_margin_gives_one_and_a_far_tail_is_not_zero(self) -> None:
        self.assertEqual(main.fisher_exact(0, 0, 0, 0), 1.0)
        self.assertEqual(main.fisher_exact(3, 0, 4, 0), 1.0)
        self.assertEqual(main.fisher_exact(2000, 0, 0, 2000), sys.float_info.min)

    def test_a_negative_count_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            main.fisher_exact(1, 2, -1, 3)


class Planning(unittest.TestCase):
    def test_power_is_the_sum_over_every_outcome_of_the_gates_rule(self) -> None:
        n, drop, discordance = 23, 0.25, 0.4
        regress, improve = (discordance + drop) / 2, (discordance - drop) / 2
        for min_effect in (0.0, 0.2, 0.5):
            expected = 0.0
            for b in range(n + 1):
                for c in range(n + 1 - b):
                    ways = math.comb(n, b) * math.comb(n - b, c)
                    chance = regress**b * improve**c * (1 - discordance) ** (n - b - c)
                    small = Fraction(c - b, n) > -Fraction(str(min_effect))
                    rejects = main.mcnemar_exact(b, c) < 0.05 and b > c and not small
                    expected += ways * chance * rejects
            found = main.power(n, drop, discordance, 0.05, min_effect)
            self.assertAlmostEqual(found, expected, delta=1e-13)

    def test_the_minimum_effect_is_compared_as_a_fraction(self) -> None:
        # 6 of 20 regress at the least: 0.3 is met exactly, though 0.3 * 20 may exceed 6 in floats
        self.assertEqual(main.power(20, 0.3, 0.3, 0.05, 0.3), main.power(20, 0.3, 0.3))

    def test_the_planning_table(self) -> None:
        # issue 4, computed for the design
        self.assertEqual(main.cases_needed(0.2, 0.2, horizon=400), 39)
        for discordance, n in ((0.1, 337), (0.2, 658), (0.3, 975)):
            found = known(main.cases_needed(0.05, discordance, min_effect=0.02, horizon=n + 30))
            self.assertEqual(found, n)
        for min_effect in (0.0, 0.02, 0.05):
            self.assertEqual(main.cases_needed(0.1, 0.2, min_effect=min_effect, horizon=400), 168)
        self.assertEqual(round(main.power(165, 0.1, 0.2), 3), 0.792)
        self.assertEqual(round(main.power(170, 0.1, 0.2), 3), 0.806)

    def test_it_is_the_size_from_which_power_stays_not_the_first_that_reaches_it(self) -> None:
        powers = {n: main.power(n, 0.2, 0.2) for n in range(20, 80)}
        needed = known(main.cases_needed(0.2, 0.2, horizon=79))
        self.assertTrue(all(powers[n] >= 0.8 for n in range(needed, 80)))
        self.assertLess(powers[needed - 1], 0.8)

    def test_a_minimum_effect_equal_to_the_drop_never_settles(self) -> None:
        self.assertIsNone(main.cases_needed(0.05, 0.2, min_effect=0.05))
        self.assertLess(main.power(4000, 0.05, 0.2, 0.05, 0.05), 0.6)

    def test_a_horizon_too_near_gives_none(self) -> None:
        self.assertIsNone(main.cases_needed(0.1, 0.2, horizon=100))

    def test_what_twenty_cases_can_see(self) -> None:
        # issue 4: a true 20-point drop is accepted 80 % of the time; nothing under 37 is seen,
        # both where no case improves (discordance = drop), which is the kindest case
        self.assertAlmostEqual(1 - main.power(20, 0.2, 0.2), 0.80, delta=0.005)
        found = known(main.minimum_detectable_effect(20))
        self.assertEqual(round(found, 2), 0.37)
        self.assertGreaterEqual(main.power(20, found, found), 0.8)
        self.assertLess(main.power(20, found - 1e-4, found - 1e-4), 0.8)

    def test_a_suite_too_small_sees_nothing(self) -> None:
        self.assertIsNone(main.minimum_detectable_effect(5))
        self.assertIsNone(main.minimum_detectable_effect(20, 0.2))
        self.assertEqual(main.power(5, 1.0, 1.0), 0.0)
        self.assertEqual(main.power(6, 1.0, 1.0), 1.0)

    def test_power_without_a_discordant_case_is_zero(self) -> None:
        self.assertEqual(main.power(50, 0.0, 0.0), 0.0)

    def test_without_a_drop_it_is_a_false_alarm_under_half_alpha(self) -> None:
        for n in (20, 100):
            self.assertLess(main.power(n, 0.0, 0.3), 0.025)

    def test_impossible_plans_are_refused(self) -> None:
        for arguments in (
            (20, 0.3, 0.2),
            (20, -0.1, 0.2),
            (20, 0.1, 1.1),
            (0, 0.1, 0.2),
            (20, 0.1, 0.2, 0.0),
            (20, 0.1, 0.2, 0.05, -0.1),
            (20, math.nan, 0.2),
        ):
            with self.subTest(arguments), self.assertRaises(ValueError):
                main.power(*arguments)
        with self.assertRaises(ValueError):
            main.cases_needed(0.1, 0.2, target=1.0)
        with self.assertRaises(ValueError):
            main.minimum_detectable_effect(20, target=0.0)


class Holm(unittest.TestCase):
    def test_values_in_the_given_order(self) -> None:
        # by hand; statsmodels multipletests(method="holm") agrees
        found = main.holm([0.01, 0.04, 0.03, 0.005])
        for value, expected in zip(found, (0.03, 0.06, 0.06, 0.02)):
            self.assertAlmostEqual(value, expected, delta=1e-15)

    def test_one_is_unchanged_none_stays_none_and_one_is_the_most(self) -> None:
        self.assertEqual(main.holm([0.2]), [0.2])
        self.assertEqual(main.holm([]), [])
        self.assertEqual(main.holm([0.9, 0.8, 1.0]), [1.0, 1.0, 1.0])

    def test_what_is_no_p_is_refused(self) -> None:
        for p in (-0.1, 1.1, math.nan):
            with self.assertRaises(ValueError):
                main.holm([0.5, p])


class CohenKappa(unittest.TestCase):
    def test_value_and_agreements(self) -> None:
        # by hand: observed 35/50, expected 0.5 * 0.6 + 0.5 * 0.4 = 0.5
        kappa = known(main.cohen_kappa(20, 5, 10, 15))
        self.assertAlmostEqual(kappa.value, 0.4, delta=1e-15)
        self.assertEqual((kappa.observed, kappa.expected), (0.7, 0.5))
        self.assertTrue(0.1 < kappa.low < 0.4 < kappa.high < 0.7)

    def test_perfect_agreement_on_few_items_keeps_an_interval(self) -> None:
        few, many = known(main.cohen_kappa(6, 0, 0, 4)), known(main.cohen_kappa(600, 0, 0, 400))
        self.assertEqual((few.value, few.high), (1.0, 1.0))
        self.assertLess(few.low, 0.8)
        self.assertTrue(0.98 < many.low < 1)

    def test_perfect_disagreement(self) -> None:
        kappa = known(main.cohen_kappa(0, 5, 5, 0))
        self.assertEqual((kappa.value, kappa.low), (-1.0, -1.0))
        self.assertTrue(-1 < kappa.high < 0)

    def test_one_class_throughout_is_undefined_not_perfect(self) -> None:
        for counts in ((10, 0, 0, 0), (0, 0, 0, 10), (0, 0, 0, 0)):
            self.assertIsNone(main.cohen_kappa(*counts))

    def test_a_judge_that_passes_everything_agrees_by_chance_alone(self) -> None:
        self.assertEqual(known(main.cohen_kappa(8, 2, 0, 0)).value, 0.0)

    def test_a_negative_count_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            main.cohen_kappa(1, -1, 1, 1)


class RoganGladen(unittest.TestCase):
    def test_the_rate_undoes_the_judges_errors(self) -> None:
        # by hand: 0.5 * 0.9 + 0.5 * 0.2 = 0.55 is what such a judge passes of a rate 0.5
        found = known(main.rogan_gladen(55, 100, 45, 50, 40, 50))
        self.assertAlmostEqual(found.rate, 0.5, delta=1e-12)
        self.assertTrue(0 < found.low < 0.5 < found.high < 1)

    def test_the_interval_widens_with_fewer_labels_and_fewer_cases(self) -> None:
        full = known(main.rogan_gladen(550, 1000, 450, 500, 400, 500))
        labels = known(main.rogan_gladen(550, 1000, 18, 20, 16, 20))
        cases = known(main.rogan_gladen(11, 20, 450, 500, 400, 500))
        for other in (labels, cases):
            self.assertGreater(other.high - other.low, 1.5 * (full.high - full.low))

    def test_a_perfect_judge_still_leaves_doubt_about_the_judge(self) -> None:
        found = known(main.rogan_gladen(50, 100, 10, 10, 10, 10))
        wilson = known(main.wilson_interval(50, 100))
        self.assertEqual(found.rate, 0.5)
        self.assertTrue(found.low < wilson.low and wilson.high < found.high)

    def test_it_stays_within_zero_and_one_and_holds_its_rate(self) -> None:
        for passed in range(21):
            found = known(main.rogan_gladen(passed, 20, 19, 20, 14, 20))
            self.assertTrue(0 <= found.low <= found.rate <= found.high <= 1, passed)
        self.assertEqual(known(main.rogan_gladen(0, 20, 19, 20, 14, 20)).rate, 0.0)
        self.assertEqual(known(main.rogan_gladen(20, 20, 19, 20, 14, 20)).rate, 1.0)

    def test_a_judge_that_says_nothing_corrects_nothing(self) -> None:
        for counts in ((5, 10, 5, 10, 5, 10), (5, 10, 3, 10, 3, 10), (5, 10, 0, 0, 5, 5)):
            self.assertIsNone(main.rogan_gladen(*counts))
        self.assertIsNone(main.rogan_gladen(5, 10, 5, 5, 0, 0))
        self.assertIsNone(main.rogan_gladen(0, 0, 9, 10, 9, 10))

    def test_too_few_labels_to_tell_leave_the_whole_range(self) -> None:
        found = known(main.rogan_gladen(5, 10, 2, 2, 1, 50))
        self.assertEqual((found.low, found.high), (0.0, 1.0))

    def test_impossible_counts_are_refused(self) -> None:
        with self.assertRaises(ValueError):
            main.rogan_gladen(11, 10, 9, 10, 9, 10)


class NearestRank(unittest.TestCase):
    def test_it_is_an_observed_value_at_the_ceiling_of_the_rank(self) -> None:
        # Wikipedia, "Percentile", nearest-rank method, example 1
        for quantile, value in ((0.05, 15), (0.3, 20), (0.4, 20), (0.5, 35), (1, 50)):
            self.assertEqual(main.nearest_rank([50, 15, 40, 20, 35], quantile), value)

    def test_the_rank_is_computed_in_decimal(self) -> None:
        # 0.07 * 100 is 7.000000000000001 in floats and would give the eighth
        self.assertEqual(main.nearest_rank(range(1, 101), 0.07), 7)
        self.assertEqual(main.nearest_rank(range(1, 21), 0.95), 19)

    def test_no_value_has_no_percentile_and_no_other_quantile_is_read(self) -> None:
        self.assertIsNone(main.nearest_rank([], 0.95))
        for quantile in (0, -0.1, 95, math.nan):
            with self.assertRaises(ValueError):
                main.nearest_rank([1.0], quantile)


class Documentation(unittest.TestCase):
    def test_the_examples_in_this_rooms_docstrings_are_true(self) -> None:
        finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
        for name in (
            "wilson_interval",
            "pass_at_k",
            "pass_hat_k",
            "mcnemar_exact",
            "sign_flip_test",
            "effect_interval",
            "min_discordant_for",
            "fisher_exact",
            "power",
            "cases_needed",
            "minimum_detectable_effect",
            "holm",
            "cohen_kappa",
            "rogan_gladen",
            "nearest_rank",
        ):
            (example,) = finder.find(getattr(main, name), name, globs=dict(vars(main)))
            self.assertGreater(len(example.examples), 0, name)
            self.assertEqual(runner.run(example).failed, 0, name)


if __name__ == "__main__":
    unittest.main()
