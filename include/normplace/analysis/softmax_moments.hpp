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
        if (!(count > 1.0) || !(variance > 0.0)) return {};
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

/// The integrals themselves; n >= 1 need not be whole. Relative error about 1e-6.
inline SoftmaxMoments integrate_softmax_moments(double n, double v) {
    if (!(v > 0.0) || !(n > 1.0)) return {n, v, 1.0 / n, (n - 1.0) / (n * n)};
    // Both integrals are trapezoid sums of functions analytic in a strip of half-width pi/2 (in ln t and in ln X), so
    // the error falls as exp(-pi^2 / step).
    constexpr double step = 0.4;
    const double sigma = std::sqrt(v);
    const double z_step = std::fmin(0.5, step / sigma);
    const double z_low = -7.5, z_high = 7.5 + 4.0 * sigma;
    const std::size_t z_count = static_cast<std::size_t>((z_high - z_low) / z_step) + 1;
    std::vector<double> x(z_count), weight(z_count);
    for (std::size_t i = 0; i < z_count; ++i) {
        const double z = z_low + z_step * static_cast<double>(i);
        x[i] = std::exp(sigma * z);
        weight[i] = std::exp(-0.5 * z * z) * z_step * 0.39894228040143267794;
    }
    const double centre = -std::log(n) - 0.5 * v, low = centre - 14.0 - v, high = std::fmax(5.0, 8.0 * sigma) + 2.0;
    double m2 = 0.0, m3 = 0.0, m22 = 0.0;
    for (double u = low; u < high; u += step) {
        const double t = std::exp(u);
        double g0 = 0.0, g2 = 0.0, g3 = 0.0, g4 = 0.0;
        for (std::size_t i = 0; i < z_count; ++i) {
            const double tx = t * x[i];
            if (tx > 700.0) break;
            const double e = weight[i] * std::exp(-tx), e2 = e * tx * tx;
            g0 += e;
            g2 += e2;
            g3 += e2 * tx;
            g4 += e2 * tx * tx;
        }
        if (!(g0 > 0.0)) break;
        // g_k above holds t^k g_k; dt = t du.
        const double others = std::exp((n - 2.0) * std::log(g0));
        if (u > centre && g4 * others < 1e-16 * m2) break;
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

/// Softmax moments by interpolation in a table over ln n and ln(1 + v) that is filled where it is asked: a prediction
/// asks for thousands of neighbouring values. Not shared between threads. Relative error below
/// 1e-4; beyond variance 40 it follows the limit of large v.
class SoftmaxTable {
public:
    SoftmaxMoments at(double n, double v) {
        if (!(n > 1.0) || !(v > 0.0)) return detail::integrate_softmax_moments(n, 0.0);
        const double tabled = std::fmin(v, detail::largest_variance);
        const Place row = place(std::log(n) / count_step), column = place(std::log1p(tabled) / variance_step);
        double concentration = 0.0, response = 0.0;
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < 4; ++j) {
                const SoftmaxMoments& node = this->node(row.first + i, column.first + j);
                const double weight = row.weight[i] * column.weight[j];
                concentration += weight * node.concentration;
                response += weight * node.response;
            }
        // Two keys compete only when their scores are within about 1 of each other, the more seldom the larger sqrt(v).
        const double beyond = std::sqrt(tabled / v);
        return {n, v, 1.0 - (1.0 - concentration / n) * beyond, response / n * beyond};
    }

private:
    static constexpr double count_step = 0.34657359027997264;  // ln(2)/2
    static constexpr double variance_step = 0.1;

    struct Place {  // four neighbouring nodes and their Lagrange weights
        std::size_t first;
        double weight[4];
    };
    static Place place(double position) {
        const double start = std::fmax(std::floor(position) - 1.0, 0.0);
        Place result{static_cast<std::size_t>(start), {}};
        for (int i = 0; i < 4; ++i) {
            double weight = 1.0;
            for (int j = 0; j < 4; ++j)
                if (j != i) weight *= (position - start - j) / (i - j);
            result.weight[i] = weight;
        }
        return result;
    }

    // A node keeps n m2 and n times the response, which vary little with n.
    const SoftmaxMoments& node(std::size_t row, std::size_t column) {
        if (row >= nodes_.size()) nodes_.resize(row + 1);
        auto& columns = nodes_[row];
        if (column >= columns.size()) columns.resize(column + 1, SoftmaxMoments{0.0, 0.0, 0.0, 0.0});
        SoftmaxMoments& node = columns[column];
        if (node.count == 0.0) {
            const double n = std::exp(count_step * static_cast<double>(row));
            node = detail::integrate_softmax_moments(n, std::expm1(variance_step * static_cast<double>(column)));
            node.concentration *= n;
            node.response *= n;
        }
        return node;
    }

    std::vector<std::vector<SoftmaxMoments>> nodes_;
};

}  // namespace normplace
