// SPDX-License-Identifier: BSD-3-Clause
//
// Moments of a softmax whose scores are Gaussian: how concentrated the weights of one query are, and how much the
// weights of two queries overlap. Exact for independent scores, at any variance, where a series in the variance is not.
// Attention needs them over n keys, the loss over V classes.
//
// For p = softmax of n independent N(0, v), with Z the sum of n log-normals X, E[X^k / Z^k] is a one-dimensional
// integral, because 1/Z^k = int t^(k-1)/(k-1)! exp(-t Z) dt: with g_k(t) = E[X^k exp(-t X)],
//
//     E sum p^2     = n int t g_2 g_0^(n-1) dt
//     E sum p^3     = n int t^2/2 g_3 g_0^(n-1) dt
//     E (sum p^2)^2 = n int t^3/6 g_4 g_0^(n-1) dt + n (n-1) int t^3/6 g_2^2 g_0^(n-2) dt
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <normplace/analysis/interpolation.hpp>

namespace normplace {

/// p = softmax of n independent N(0, v); p' another one, whose scores correlate with p's by r, key by key.
///
/// The overlap E sum_j p_j p'_j is a power series in r with non-negative coefficients, and by Price's theorem its
/// derivative is v E sum_jk (dp_j/ds_k)(dp'_j/ds_k). Both ends are known in value and slope: 1/n and v (1 - m2)^2/(n -
/// 1) at r = 0, m2 and v times the response at r = 1. Between them stands 1/n + rise (a r + (1 - a) r^p), which has
/// those ends and such coefficients.
struct SoftmaxMoments {
    double count = 1.0;          ///< n
    double variance = 0.0;       ///< v
    double concentration = 1.0;  ///< m2 = E sum p^2, from 1/n to 1
    double response = 0.0;       ///< E sum_jk (dp_j/ds_k)^2 = m2 - 2 E sum p^3 + E (sum p^2)^2

    /// The second-order series in the scores has the overlap 1/n + v r (n-1)/n^2 and the response (n-1)/n^2. These
    /// ratios carry its terms to the exact values, as functions of the correlation r.
    struct Ratios {
        double linear = 1.0, higher = 0.0, power = 2.0;

        struct Values {
            double overlap, response;
        };
        Values at(double r) const {
            if (higher == 0.0) return {linear, linear};
            const double rest = higher * (r < 0.0 ? -std::pow(-r, power - 1.0) : std::pow(r, power - 1.0));
            return {linear + rest, linear + power * rest};
        }
    };
    Ratios ratios() const {
        if (!(count > 1.0) || !(variance > 1e-8)) return {};  // both ratios are 1 within that
        const double unit = variance * (count - 1.0) / (count * count), spread = 1.0 - concentration;
        const double rise = concentration - 1.0 / count;
        const double low = std::fmin(variance * spread * spread / (count - 1.0), rise), high = variance * response;
        if (!(rise - low > 1e-9 * rise)) return {rise / unit, 0.0, 2.0};
        return {low / unit, (rise - low) / unit, std::fmax((high - low) / (rise - low), 1.0)};
    }

    /// ov(r) = E sum_j p_j p'_j.
    double overlap(double r) const {
        return 1.0 / count + variance * (count - 1.0) / (count * count) * r * ratios().at(r).overlap;
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
    if (!(v > 1e-8) || !(n > 1.0)) return {n, v, 1.0 / n, (n - 1.0) / (n * n)};
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
    // exp(-y) y^k, k = 0, 2, 3, 4, at y = exp(ln_y + grid i), from i = y_first on. exp(-y) is 1 before, and 0 from
    // y_end on.
    std::vector<double> terms;
    const int y_first = static_cast<int>(std::fmax((-39.0 - ln_y) / grid, 0.0));
    const int y_end = static_cast<int>((std::log(700.0) - ln_y) / grid) + 1;
    int y_known = y_first;
    const auto within = [&](int i) { return i < 0 ? 0 : i < z_count ? i : z_count; };
    double m2 = 0.0, m3 = 0.0, m22 = 0.0;
    // Before u = -ln n - v - 20 all integrands are below t^2 E X^2, less than 1e-16 of what they sum to.
    int k = static_cast<int>(std::fmax((centre - 0.5 * v - 20.0 - low) / step, 0.0));
    for (; low + step * k < high; ++k) {
        const int shift = k * static_cast<int>(per_step), begin = within(y_first - shift), end = within(y_end - shift);
        for (; y_known < end + shift; ++y_known) {
            const double y = std::exp(ln_y + grid * y_known), e = std::exp(-y);
            for (const double term : {e, e * y * y, e * y * y * y, e * y * y * y * y}) terms.push_back(term);
        }
        const double *const w = weight.data(), *const term = terms.data();
        double g[] = {below.data()[begin], 0.0, 0.0, 0.0};
        for (int i = begin; i < end; ++i)
            for (int j = 0; j < 4; ++j) g[j] += w[i] * term[4 * (i + shift - y_first) + j];
        const auto [g0, g2, g3, g4] = g;
        if (!(g0 > 0.0)) break;
        // g_k above holds t^k g_k; dt = t du.
        const double others = std::exp((n - 2.0) * std::log(g0));
        if (low + step * k > centre && g4 * others < 1e-16 * m2) break;
        m2 += g2 * g0 * others;
        m3 += g3 * g0 * others / 2.0;
        m22 += (g4 * g0 + (n - 1.0) * g2 * g2) * others / 6.0;
    }
    m2 *= n * step;
    m3 *= n * step;
    m22 *= n * step;
    return {n, v, std::fmin(m2, 1.0), std::fmax(m2 - 2.0 * m3 + m22, 0.0)};
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

/// Softmax moments by interpolation in a table over ln n and ln(1 + v) that is filled where it is asked. Not shared
/// between threads. Relative error below 1e-4; beyond variance 40 it follows the limit of large v.
class SoftmaxTable {
public:
    SoftmaxMoments at(double n, double v) {
        if (!(n > 1.0) || !(v > 0.0)) return detail::integrate_softmax_moments(n, 0.0);
        const double tabled = std::fmin(v, detail::largest_variance);
        const detail::CubicPlace row = detail::cubic_place(std::log(n) / count_step);
        const detail::CubicPlace column = detail::cubic_place(std::log1p(tabled) / variance_step);
        double concentration = 0.0, response = 0.0;
        for (std::size_t i = 0; i < 4; ++i) {
            const SoftmaxMoments* const nodes = this->nodes(row.first + i, column.first);
            for (std::size_t j = 0; j < 4; ++j) {
                const double weight = row.weight[i] * column.weight[j];
                concentration += weight * nodes[j].concentration;
                response += weight * nodes[j].response;
            }
        }
        // Two keys compete only when their scores are within about 1 of each other, the more seldom the larger sqrt(v).
        const double beyond = std::sqrt(tabled / v);
        return {n, v, 1.0 - (1.0 - concentration / n) * beyond, response / n * beyond};
    }

private:
    static constexpr double count_step = 0.34657359027997264;  // ln(2)/2
    static constexpr double variance_step = 0.1;
    static constexpr std::size_t columns = 40;  // ln(1 + 40) / 0.1 is 37.1, between columns 36 and 39

    // Four nodes of a row. A node keeps n m2 and n times the response, which vary little with n.
    const SoftmaxMoments* nodes(std::size_t row, std::size_t first) {
        if ((row + 1) * columns > nodes_.size()) nodes_.resize((row + 1) * columns, {0.0, 0.0, 0.0, 0.0});
        SoftmaxMoments* const four = &nodes_[row * columns + first];
        for (std::size_t i = 0; i < 4; ++i) {
            if (four[i].count != 0.0) continue;
            const double n = std::exp(count_step * static_cast<double>(row));
            four[i] = detail::integrate_softmax_moments(n, std::expm1(variance_step * static_cast<double>(first + i)));
            four[i].concentration *= n;
            four[i].response *= n;
        }
        return four;
    }

    std::vector<SoftmaxMoments> nodes_;  // those with count 0 are not computed yet
};

}  // namespace normplace
