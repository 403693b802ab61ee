// SPDX-License-Identifier: BSD-3-Clause
//
// The moments of a softmax (softmax_moments.hpp) as the estimator asks for them: by interpolation, and for scores that
// are products of queries and keys of few components.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <normplace/analysis/interpolation.hpp>
#include <normplace/analysis/softmax_moments.hpp>

namespace normplace {

/// Softmax moments by interpolation in a table over ln n and ln(1 + v) that is filled where it is asked. Not shared
/// between threads. Relative error below 1e-4; beyond variance 40 it follows the limit of large v.
class SoftmaxTable {
public:
    SoftmaxMoments at(double n, double v) {
        if (!(n > 1.0) || !(v > 0.0)) return detail::integrate_softmax_moments(n, 0.0);
        const double tabled = std::fmin(v, detail::largest_variance);
        const detail::CubicPlace row = detail::cubic_place(std::log(n) / count_step);
        const detail::CubicPlace column = detail::cubic_place(std::log1p(tabled) / variance_step);
        double concentration = 0.0, response = 0.0, radial = 0.0, curvature = 0.0;
        for (std::size_t i = 0; i < 4; ++i) {
            const SoftmaxMoments* const nodes = this->nodes(row.first + i, column.first);
            for (std::size_t j = 0; j < 4; ++j) {
                const double weight = row.weight[i] * column.weight[j];
                concentration += weight * nodes[j].concentration;
                response += weight * nodes[j].response;
                radial += weight * nodes[j].radial;
                curvature += weight * nodes[j].curvature;
            }
        }
        // Two keys compete only when their scores are within about 1 of each other, the more seldom the larger sqrt(v).
        // Two alone have no curvature: three must compete.
        const double beyond = std::sqrt(tabled / v), slope = (1.0 - concentration / n) * beyond;
        response *= beyond / n;
        return {n, v, 1.0 - slope, response, radial / n * beyond, slope, curvature * beyond * beyond, response, 0.0};
    }
    /// Of scores between queries and keys of K components: the mean over |q|^2/K, which is chi-square over its degrees,
    /// to a relative 1e-3 from K = 4 up. A change of q along itself scales all scores, others change each key's by
    /// itself, which makes the response 1/K radial.
    SoftmaxMoments at(double n, double v, double head_width) {
        if (!(n > 1.0) || !(v > 0.0)) return at(n, v);
        // Wilson and Hilferty: the cube root of |q|^2/K is normal. Five nodes of Gauss and Hermite.
        constexpr double nodes[] = {-2.8569700138728056, -1.3556261799742659, 0.0, 1.3556261799742659,
                                    2.8569700138728056};
        constexpr double weights[] = {0.011257411327720689, 0.22207592200561264, 0.53333333333333333,
                                      0.22207592200561264, 0.011257411327720689};
        const double variance = 2.0 / (9.0 * head_width);
        SoftmaxMoments result;
        result.count = n;
        result.variance = v;
        result.concentration = 0.0;
        result.freedom = 1.0 / head_width;
        for (std::size_t i = 0; i < 5; ++i) {
            const double root = std::fmax(1.0 - variance + nodes[i] * std::sqrt(variance), 0.0);
            const double square = root * root * root;
            const SoftmaxMoments given = at(n, square * v);
            const auto add = [&](double& mean, double value) { mean += weights[i] * value; };
            add(result.concentration, given.concentration);
            add(result.response, given.response * (1.0 - result.freedom) + given.radial * result.freedom);
            add(result.radial, given.radial);
            add(result.slope, square * given.slope);
            add(result.curvature, square * given.curvature);
            add(result.key_response, square * given.response);
        }
        return result;
    }

private:
    static constexpr double count_step = 0.34657359027997264;  // ln(2)/2
    static constexpr double variance_step = 0.1;
    static constexpr std::size_t columns = 40;  // ln(1 + 40) / 0.1 is 37.1, between columns 36 and 39

    // Four nodes of a row. A node keeps n m2 and n times the responses, which vary little with n.
    const SoftmaxMoments* nodes(std::size_t row, std::size_t first) {
        if ((row + 1) * columns > nodes_.size()) {
            SoftmaxMoments unknown;
            unknown.count = 0.0;
            nodes_.resize((row + 1) * columns, unknown);
        }
        SoftmaxMoments* const four = &nodes_[row * columns + first];
        for (std::size_t i = 0; i < 4; ++i) {
            if (four[i].count != 0.0) continue;
            const double n = std::exp(count_step * static_cast<double>(row));
            four[i] = detail::integrate_softmax_moments(n, std::expm1(variance_step * static_cast<double>(first + i)));
            for (double* moment : {&four[i].concentration, &four[i].response, &four[i].radial}) *moment *= n;
        }
        return four;
    }

    std::vector<SoftmaxMoments> nodes_;  // those with count 0 are not computed yet
};

}  // namespace normplace
