// SPDX-License-Identifier: BSD-3-Clause
//
// The feed-forward sublayer's activation phi: a value that names its scalar function and derivative (what the analysis
// needs) and the loops over rows (what the sublayer runs). The loops are made by the compiler from the scalar function,
// so a user's own activation is as fast as these:
//
//     struct Square {
//         static constexpr auto name = "square";
//         template <class T> static T value(T u) { return u * u; }
//         template <class T> static T derivative(T u) { return 2 * u; }
//     };
//     FeedForward<float> layer({.width = 8, .feed_forward = 32, .activation = activation<Square>()});
#pragma once

#include <cmath>
#include <cstddef>

namespace normplace {

struct Activation {
    template <class T>
    struct Rows {
        void (*forward)(const T* u, T* y, std::size_t count);                 // y = phi(u)
        void (*backward)(const T* u, const T* dy, T* du, std::size_t count);  // du = phi'(u) dy; du may be dy
    };

    const char* name;
    double (*value)(double u);
    double (*derivative)(double u);
    Rows<float> float_rows;
    Rows<double> double_rows;

    template <class T>
    constexpr const Rows<T>& rows() const {
        if constexpr (sizeof(T) == sizeof(float)) return float_rows;
        else return double_rows;
    }
    /// Two activations are the same when they compute the same function.
    constexpr bool operator==(const Activation& other) const { return value == other.value; }
};

namespace detail {

template <class Function, class T>
void activate(const T* u, T* y, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) y[i] = Function::template value<T>(u[i]);
}
template <class Function, class T>
void activate_backward(const T* u, const T* dy, T* du, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) du[i] = Function::template derivative<T>(u[i]) * dy[i];
}

}  // namespace detail

/// The activation that computes Function::value, with derivative Function::derivative.
template <class Function>
constexpr Activation activation() {
    return {Function::name,
            &Function::template value<double>,
            &Function::template derivative<double>,
            {&detail::activate<Function, float>, &detail::activate_backward<Function, float>},
            {&detail::activate<Function, double>, &detail::activate_backward<Function, double>}};
}

/// max(u, 0), with derivative 0 at 0. NaN stays NaN.
struct ReLU {
    static constexpr auto name = "relu";
    template <class T>
    static T value(T u) {
        return u < T(0) ? T(0) : u;
    }
    template <class T>
    static T derivative(T u) {
        return u > T(0) ? T(1) : T(0);
    }
};

/// u Phi(u) with the exact normal distribution function Phi, not its tanh approximation. Hendrycks and Gimpel 2016,
/// arXiv:1606.08415.
struct GELU {
    static constexpr auto name = "gelu";
    template <class T>
    static T distribution(T u) {
        return T(0.5) * std::erfc(-u * T(0.70710678118654752440));
    }
    template <class T>
    static T value(T u) {
        return u * distribution(u);
    }
    template <class T>
    static T derivative(T u) {
        return distribution(u) + u * T(0.39894228040143267794) * std::exp(T(-0.5) * u * u);
    }
};

inline constexpr Activation relu = activation<ReLU>();
inline constexpr Activation gelu = activation<GELU>();

}  // namespace normplace
