// SPDX-License-Identifier: BSD-3-Clause
//
// Argument checks, each ending in one sentence with the values: who refuses what, what was expected and what came.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <normplace/detail/xtensor.hpp>

namespace normplace::detail {

template <std::size_t N>
std::string shape_text(const Shape<N>& shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < N; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + ")";
}

inline std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

[[noreturn]] inline void refuse(const char* who, const std::string& sentence) {
    throw std::invalid_argument(std::string(who) + ": " + sentence);
}

/// A sentence that has to be put together is a function, called only when it is needed: a passing check allocates
/// nothing.
template <class Sentence>
void require(bool condition, const char* who, const Sentence& sentence) {
    if (condition) return;
    if constexpr (std::is_invocable_v<const Sentence&>) refuse(who, sentence());
    else refuse(who, sentence);
}

inline void require_positive(const char* who, const char* what, std::size_t value) {
    if (value == 0) throw std::invalid_argument(std::string(who) + ": " + what + " is 0, expected at least 1");
}

template <class Tensor>
void require_shape(const char* who, const char* what, const Tensor& tensor, const ShapeOf<Tensor>& expected) {
    if (shape_of(tensor) != expected)
        throw std::invalid_argument(std::string(who) + ": " + what + " has shape " + shape_text(shape_of(tensor)) +
                                    ", expected " + shape_text(expected));
}

template <class T>
void require_width(const char* who, const char* what, const Activations<T>& x, std::size_t width) {
    if (width == 0) throw std::invalid_argument(std::string(who) + ": it was made without options and has no width");
    if (shape_of(x)[2] != width)
        throw std::invalid_argument(std::string(who) + ": " + what + " has shape " + shape_text(shape_of(x)) +
                                    ", expected (B, S, " + std::to_string(width) + ")");
}

/// A kernel that reads `input` while it writes `output` must not be given the same tensor twice.
template <class A, class B>
void require_distinct(const char* who, const char* input, const A& a, const char* output, const B& b) {
    if (static_cast<const void*>(&a) == static_cast<const void*>(&b))
        throw std::invalid_argument(std::string(who) + ": " + input + " and " + output + " are the same tensor");
}

/// A backward that works in its cache's memory can use it once.
inline void require_filled(const char* who, bool filled) {
    require(filled, who, "backward needs a cache that a forward has filled and no backward has used up");
}

}  // namespace normplace::detail
