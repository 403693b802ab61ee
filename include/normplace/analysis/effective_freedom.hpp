// SPDX-License-Identifier: BSD-3-Clause
//
// In how many directions the entries of a weight's gradient effectively vary. An entry of sum_i g_i x_i^T is Gaussian
// given the inputs, with variance x^T G x; that is a quadratic form, and acts as a chi-square of nu = (tr K G)^2 / tr(K
// G K G) degrees: 1 when all tokens pull the same way, many when each pulls its own.
#pragma once

#include <cstddef>
#include <vector>

#include <normplace/analysis/crossing.hpp>

namespace normplace {

/// nu, from 1 on. O((B S)^3) for given tokens.
inline double effective_freedom(const Crossing& crossing, const TokenKernel& k, const TokenKernel& g) {
    const TokenLayout& layout = crossing.before();
    const double trace = layout.inner(k, g);
    const double n = static_cast<double>(layout.sequence()), b = static_cast<double>(layout.batch());
    double square = 0.0;
    if (layout.is_exchangeable()) {  // K and G have the same three eigenspaces
        const auto add = [&](double dimensions, double k_eigenvalue, double g_eigenvalue) {
            const double product = k_eigenvalue * g_eigenvalue;
            if (dimensions > 0.0) square += dimensions * product * product;
        };
        const auto all = [&](const TokenKernel& x) { return x[0] + (n - 1.0) * x[1] + n * (b - 1.0) * x[2]; };
        const auto between = [&](const TokenKernel& x) { return x[0] + (n - 1.0) * x[1] - n * x[2]; };
        const auto within = [&](const TokenKernel& x) { return x[0] - x[1]; };
        add(1.0, all(k), all(g));
        add(b - 1.0, between(k), between(g));
        add(b * (n - 1.0), within(k), within(g));
    } else {
        const std::size_t size = layout.classes();
        const auto add = [&](double times, const std::vector<double>& x, const std::vector<double>& y) {
            std::vector<double> product(size * size);
            for (std::size_t i = 0; i < size; ++i)
                for (std::size_t l = 0; l < size; ++l) {
                    const double weight = x[i * size + l];
                    for (std::size_t j = 0; j < size; ++j) product[i * size + j] += weight * y[l * size + j];
                }
            double sum = 0.0;
            for (std::size_t i = 0; i < size; ++i)
                for (std::size_t j = 0; j < size; ++j) sum += product[i * size + j] * product[j * size + i];
            square += times * sum;
        };
        if (layout.alike_by_position()) {  // the mean over sequences, and what differs between them
            const auto mode = [&](const TokenKernel& x, double across) {
                std::vector<double> result(x.begin(), x.begin() + size * size);
                if (b > 1.0)
                    for (std::size_t e = 0; e < size * size; ++e) result[e] += across * x[size * size + e];
                return result;
            };
            add(1.0, mode(k, b - 1.0), mode(g, b - 1.0));
            add(b - 1.0, mode(k, -1.0), mode(g, -1.0));
        } else {
            const FoldedKernel x = crossing.fold(k), y = crossing.fold(g);
            add(1.0, {x.begin(), x.end()}, {y.begin(), y.end()});
        }
    }
    return square > 0.0 ? trace * trace / square : 1.0;
}

}  // namespace normplace
