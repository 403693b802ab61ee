// SPDX-License-Identifier: BSD-3-Clause
//
// Draws weights: from an Initialization's variance for the role, times the placement's gain. The random engine is the
// caller's, so a seed fixes every weight.
#pragma once

#include <cmath>

#include <normplace/detail/random.hpp>
#include <normplace/detail/xtensor.hpp>
#include <normplace/placement/initialization.hpp>

namespace normplace {

class Initializer {
public:
    using Gain = double (*)(Role, const Depth&);

    /// @param gain the placement's factor on the standard deviation (`initial_gain<P>`); none when null
    /// @throws std::invalid_argument when the depth's layer is not one of its layers
    explicit Initializer(RandomEngine& random, const Initialization& scheme = Initialization::xavier(),
                         const Depth& depth = {}, Gain gain = nullptr)
        : random_(random), scheme_(scheme), depth_(depth), gain_(gain) {
        depth_.check();
    }

    /// The standard deviation of one entry of a matrix (fan_out, fan_in) in `role`.
    double standard_deviation(Role role, std::size_t fan_in, std::size_t fan_out) const {
        return (gain_ ? gain_(role, depth_) : 1.0) * std::sqrt(scheme_.variance(role, fan_in, fan_out, depth_));
    }

    /// Draws `weight` (out, in), independent entries of mean 0.
    template <class T>
    void draw(Matrix<T>& weight, Role role) const {
        const double deviation = standard_deviation(role, weight.shape()[1], weight.shape()[0]);
        if (scheme_.distribution() == Initialization::Distribution::uniform)
            detail::fill_uniform(weight.data(), weight.size(), static_cast<T>(std::sqrt(3.0) * deviation), random_);
        else detail::fill_gaussian(weight.data(), weight.size(), static_cast<T>(deviation), random_);
    }

private:
    RandomEngine& random_;
    Initialization scheme_;
    Depth depth_;
    Gain gain_;
};

}  // namespace normplace
