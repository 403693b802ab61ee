// SPDX-License-Identifier: BSD-3-Clause
//
// How large the weights start: the variance of each weight matrix by role, fan-in, fan-out and depth. The blocks draw
// from it, the analysis predicts from it. A placement's own gain (placement.hpp) multiplies the standard deviation on
// top.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include <normplace/placement/depth.hpp>

namespace normplace {

class Initialization {
public:
    enum class Distribution { gaussian, uniform };

    /// Variance 2 / (fan_in + fan_out). Glorot and Bengio 2010.
    static constexpr Initialization xavier(Distribution distribution = Distribution::gaussian) {
        return {Scheme::xavier, distribution, 0.0};
    }
    /// The same standard deviation for every matrix.
    /// @throws std::invalid_argument when it is negative or not a number
    static constexpr Initialization standard_deviation(double value) {
        if (!(value >= 0.0))
            throw std::invalid_argument("Initialization: standard deviation " + std::to_string(value) +
                                        " is negative or not a number");
        return {Scheme::standard_deviation, Distribution::gaussian, value};
    }
    /// Standard deviation 0.02, and 0.02 / sqrt(2L) for W_o and W_2. Radford et al. 2019 (GPT-2).
    static constexpr Initialization gpt2() { return {Scheme::gpt2, Distribution::gaussian, 0.02}; }
    /// What PyTorch's TransformerEncoderLayer draws: uniform, with fan_in * variance = 1/2 for W_q, W_k and W_v (one
    /// Xavier matrix of 3D rows) and 1/3 for the others.
    static constexpr Initialization pytorch() { return {Scheme::pytorch, Distribution::uniform, 0.0}; }
    /// Xiong et al. 2020's: Xavier, with W_q = W_k = 0, so that attention is a plain average.
    static constexpr Initialization paper() { return {Scheme::paper, Distribution::gaussian, 0.0}; }

    /// The variance of one entry of the matrix (fan_out, fan_in) in `role`.
    constexpr double variance(Role role, std::size_t fan_in, std::size_t fan_out, const Depth& depth) const {
        const double in = static_cast<double>(fan_in), out = static_cast<double>(fan_out);
        const bool query_or_key = role == Role::query || role == Role::key;
        switch (scheme_) {
            case Scheme::standard_deviation: return value_ * value_;
            case Scheme::gpt2: {
                const bool ends_the_branch = role == Role::out || role == Role::linear2;
                return value_ * value_ / (ends_the_branch ? 2.0 * static_cast<double>(depth.layers) : 1.0);
            }
            case Scheme::pytorch: return (query_or_key || role == Role::value ? 0.5 : 1.0 / 3.0) / in;
            case Scheme::paper: return query_or_key ? 0.0 : 2.0 / (in + out);
            case Scheme::xavier: break;
        }
        return 2.0 / (in + out);
    }

    /// The same scheme, with the same value and distribution.
    constexpr bool operator==(const Initialization&) const = default;

    constexpr Distribution distribution() const { return distribution_; }

    constexpr std::string_view name() const {
        switch (scheme_) {
            case Scheme::standard_deviation: return "standard-deviation";
            case Scheme::gpt2: return "gpt2";
            case Scheme::pytorch: return "pytorch";
            case Scheme::paper: return "paper";
            case Scheme::xavier: break;
        }
        return "xavier";
    }

private:
    enum class Scheme { xavier, standard_deviation, gpt2, pytorch, paper };

    constexpr Initialization(Scheme scheme, Distribution distribution, double value)
        : scheme_(scheme), distribution_(distribution), value_(value) {}

    Scheme scheme_;
    Distribution distribution_;
    double value_;
};

}  // namespace normplace
