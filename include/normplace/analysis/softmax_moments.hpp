// SPDX-License-Identifier: BSD-3-Clause
//
// Moments of a softmax whose scores are Gaussian: how concentrated the weights of one query are, and how much the
// weights of two queries overlap. Exact for independent scores, at any variance, where a series in the variance is not.
// Attention needs them over n keys, the loss over V classes.
//
// For p = softmax of n independent N(0, v), with Z the sum of n log-normals X, E[X^k / Z^k] is a one-dimensional
// integral, because 1/Z^k = int t^(k-1)/(k-1)! exp(-t Z) dt: with g_kp(t) = E[X^k (ln X)^p exp(-t X)], g_k = g_k0,
//
//     E sum p^2     = n int t g_2 g_0^(n-1) dt
//     E sum p^3     = n int t^2/2 g_3 g_0^(n-1) dt
//     E (sum p^2)^2 = n int t^3/6 g_4 g_0^(n-1) dt + n (n-1) int t^3/6 g_2^2 g_0^(n-2) dt
//
// and the change of p with the size of its scores, E sum_j p_j^2 (s_j - sum_k p_k s_k)^2, takes the g_kp with p > 0.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace normplace {

/// p = softmax of n independent N(0, v); p' another one, whose scores correlate with p's by r, key by key.
///
/// The overlap E sum_j p_j p'_j is a power series in r with non-negative coefficients, and by Price's theorem its
/// derivative is v E sum_jk (dp_j/ds_k)(dp'_j/ds_k). Its first two coefficients are known from the mean first and
/// second derivatives of p: by symmetry among the keys a_1 = v slope^2/(n-1) and a_2 = v^2/2 curvature^2
/// n/((n-1)(n-2)). So are the value m2 and the slope, v times the response, at r = 1; the rest of the series is one
/// power of r that has them.
///
/// Scores are products of queries and keys of K components, K the heads' width. Given the query q they are Gaussian,
/// with the variance v |q|^2/K: the moments are means over |q|^2 (SoftmaxTable), and the correlation of two queries
/// fluctuates about r by (1 - r^2)/sqrt(K).
struct SoftmaxMoments {
    double count = 1.0;          ///< n
    double variance = 0.0;       ///< v
    double concentration = 1.0;  ///< m2 = E sum p^2, from 1/n to 1
    double response = 0.0;       ///< E sum_jk (dp_j/ds_k)^2 = m2 - 2 E sum p^3 + E (sum p^2)^2
    double radial = 0.0;         ///< E sum_j (sum_k s_k dp_j/ds_k)^2 / v
    double slope = 0.0;          ///< E sum_j dp_j/ds_j = 1 - m2, with heads its mean times |q|^2/K
    double curvature = 0.0;      ///< E sum_j d^2p_j/ds_j^2 = 1 - 3 m2 + 2 E sum p^3, likewise
    double key_response = 0.0;   ///< the response times |q|^2/K
    double freedom = 0.0;        ///< 1/K

    /// The second-order series in the scores has the overlap 1/n + v r (n-1)/n^2, the response (n-1)/n^2, and r times
    /// that at the keys. These ratios carry its terms to the exact values, as functions of the correlation r.
    struct Ratios {
        double linear = 1.0, quadratic = 0.0, higher = 0.0, power = 3.0;
        double key_excess = 0.0, freedom = 0.0;

        struct Values {
            double overlap, response, key;  ///< for r, 1 and r
            double slope;                   ///< d response / d r
        };
        Values at(double r) const {
            const double size = std::fabs(r), below = higher == 0.0 ? 0.0 : higher * std::pow(size, power - 2.0);
            const double rest = below * size, unlike = (1.0 - r * r) * freedom;
            const double response = linear + 2.0 * quadratic * (1.0 - freedom) * r + power * rest;
            const double slope = 2.0 * quadratic + power * (power - 1.0) * std::copysign(below, r);
            return {r * (linear + quadratic * r + rest) + quadratic * unlike, response,
                    r * response * (1.0 + key_excess * r * r) + slope * unlike, slope};
        }
    };
    Ratios ratios() const {
        if (!(count > 1.0) || !(variance > 1e-8)) return {};  // both ratios are 1 within that
        const double unit = variance * (count - 1.0) / (count * count), rise = concentration - 1.0 / count;
        Ratios result;
        result.freedom = freedom;
        result.key_excess = response > 0.0 ? key_response / response - 1.0 : 0.0;
        const double low = std::fmin(variance * slope * slope / (count - 1.0), rise);
        const double second = count > 2.0 + 1e-3
                                  ? 0.5 * std::pow(variance * curvature, 2) * count / ((count - 1.0) * (count - 2.0))
                                  : 0.0;
        const double quadratic = std::fmin(second, rise - low), rest = rise - low - quadratic;
        result.quadratic = quadratic / unit;
        result.linear = low / unit;
        if (!(rest > 1e-6 * std::fabs(rise))) {
            result.linear += rest / unit;
            return result;
        }
        result.higher = rest / unit;
        result.power = std::fmax((variance * response - low - 2.0 * quadratic * (1.0 - freedom)) / rest, 2.0);
        return result;
    }

    /// ov(r) = E sum_j p_j p'_j.
    double overlap(double r) const {
        return 1.0 / count + variance * (count - 1.0) / (count * count) * ratios().at(r).overlap;
    }
    /// E sum_jk (dp_j/ds_k)(dp'_j/ds_k) = ov'(r) / v.
    double response_overlap(double r) const { return (count - 1.0) / (count * count) * ratios().at(r).response; }
};

namespace detail {

/// Above this the weights of fewer than e^20 keys have long settled on one of them; tables end here.
inline constexpr double largest_variance = 40.0;

/// The integrals themselves; n >= 1 need not be whole. Relative error about 1e-6. The work grows as 1/sqrt(v) below v
/// = 1.
inline SoftmaxMoments integrate_softmax_moments(double n, double v) {
    if (!(v > 1e-8) || !(n > 1.0)) {
        const double response = (n - 1.0) / (n * n);
        return {n, v, 1.0 / n, response, response, 1.0 - 1.0 / n, (1.0 - 1.0 / n) * (1.0 - 2.0 / n), response, 0.0};
    }
    // Both integrals are trapezoid sums of functions analytic in a strip of half-width pi/2 (in ln t and in ln X), so
    // the error falls as exp(-pi^2 / step). ln t, ln X and their sum ln y, y = t X, share one grid, so that there is
    // one exp(-y) for each y and not for each pair: a prediction asks for a hundred of these integrals and more.
    constexpr double step = 0.4;
    const double sigma = std::sqrt(v);
    const double per_step = std::ceil(step / (0.5 * sigma)), grid = step / per_step, z_step = grid / sigma;
    const double z_low = -7.5, z_high = 7.5 + 4.0 * sigma;
    const int z_count = static_cast<int>((z_high - z_low) / z_step) + 1;
    std::vector<double> weight, below{0.0};  // below[i]: the sum of the first i weights
    for (int i = 0; i < z_count; ++i) {
        const double z = z_low + z_step * i;
        weight.push_back(std::exp(-0.5 * z * z) * z_step * 0.39894228040143267794);
        below.push_back(below.back() + weight.back());
    }
    const double centre = -std::log(n) - 0.5 * v, low = centre - 14.0 - v, high = std::fmax(5.0, 8.0 * sigma) + 2.0;
    const double ln_y = low + sigma * z_low;
    // exp(-y) y^k, k = 0 to 4, at y = exp(ln_y + grid i), from i = y_first on. exp(-y) is 1 before, and 0 from
    // y_end on.
    std::vector<double> terms;
    const int y_first = static_cast<int>(std::fmax((-39.0 - ln_y) / grid, 0.0));
    const int y_end = static_cast<int>((std::log(700.0) - ln_y) / grid) + 1;
    int y_known = y_first;
    const auto within = [&](int i) { return i < 0 ? 0 : i < z_count ? i : z_count; };
    double m2 = 0.0, m3 = 0.0, m22 = 0.0, radial = 0.0;
    // Before u = -ln n - v - 20 all integrands are below t^2 E X^2, less than 1e-16 of what they sum to.
    int k = static_cast<int>(std::fmax((centre - 0.5 * v - 20.0 - low) / step, 0.0));
    for (; low + step * k < high; ++k) {
        const int shift = k * static_cast<int>(per_step), begin = within(y_first - shift), end = within(y_end - shift);
        for (; y_known < end + shift; ++y_known) {
            const double y = std::exp(ln_y + grid * y_known), e = std::exp(-y);
            for (const double term : {e, e * y, e * y * y, e * y * y * y, e * y * y * y * y}) terms.push_back(term);
        }
        const double *const w = weight.data(), *const term = terms.data();
        // t^k g_kp, with p powers of ln X / sigma; dt = t du.
        double g[5] = {below.data()[begin]}, g_s[5] = {}, g_ss[5] = {};
        for (int i = begin; i < end; ++i) {
            const double z = z_low + z_step * i;
            for (int j = 0; j < 5; ++j) {
                const double part = w[i] * term[5 * (i + shift - y_first) + j];
                g[j] += part;
                g_s[j] += z * part;
                g_ss[j] += z * z * part;
            }
        }
        if (!(g[0] > 0.0)) break;
        const double others = std::exp((n - 3.0) * std::log(g[0]));
        if (low + step * k > centre && g[4] * g[0] * others < 1e-16 * m2) break;
        const double one = g[0] * g[0] * others, two = (n - 1.0) * g[0] * others,
                     three = (n - 1.0) * (n - 2.0) * others;
        m2 += g[2] * one;
        m3 += g[3] * one / 2.0;
        m22 += (g[4] * one + g[2] * g[2] * two) / 6.0;
        radial +=
            g_ss[2] * one - (g_ss[3] * one + g_s[2] * g_s[1] * two) +
            (g_ss[4] * one + (2.0 * g_s[3] * g_s[1] + g[2] * g_ss[2]) * two + g[2] * g_s[1] * g_s[1] * three) / 6.0;
    }
    for (double *moment : {&m2, &m3, &m22, &radial}) *moment *= n * step;
    m2 = std::fmin(m2, 1.0);
    const double response = std::fmax(m2 - 2.0 * m3 + m22, 0.0);
    return {n, v, m2, response, std::fmax(radial, 0.0), 1.0 - m2, 1.0 - 3.0 * m2 + 2.0 * m3, response, 0.0};
}

}  // namespace detail

/// E ln(sum of n independent log-normals exp(N(0, v))) = int (exp(-t) - g_0(t)^n) / t dt: the mean cross-entropy of n
/// classes with such logits.
inline double expected_log_sum_exp(double n, double v) {
    if (std::isnan(v)) return v;
    if (!(v > 0.0)) return std::log(n);
    if (v > detail::largest_variance) {
        // One class wins: sqrt(v) times the mean of the largest of n normals, int (1 - Phi^n) over z > 0 less int Phi^n
        // over z < 0. The error falls as 1/sqrt(v).
        constexpr double z_step = 0.01;
        double largest = 0.0;
        for (double z = 0.5 * z_step; z < 12.0; z += z_step) {
            const double above = 0.5 * std::erfc(z * 0.70710678118654752440);
            largest += (-std::expm1(n * std::log1p(-above)) - std::exp(n * std::log(above))) * z_step;
        }
        return std::sqrt(v) * largest;
    }
    constexpr double step = 0.2;
    const double sigma = std::sqrt(v), z_step = std::fmin(0.5, step / sigma);
    double sum = 0.0;
    // Centred at ln t = -E, so that the two terms of the integrand end together.
    const double shift = std::log(n) + 0.5 * v;
    for (double u = -40.0; u < 20.0 + 10.0 * sigma; u += step) {
        double g0 = 0.0;
        for (double z = -8.0; z <= 8.0; z += z_step)
            g0 += std::exp(-0.5 * z * z - std::exp(u - shift + sigma * z)) * z_step * 0.39894228040143267794;
        sum += std::exp(-std::exp(u)) - (g0 > 0.0 ? std::exp(n * std::log(g0)) : 0.0);
    }
    return shift + sum * step;
}

}  // namespace normplace
