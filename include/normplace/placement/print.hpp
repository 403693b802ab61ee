// SPDX-License-Identifier: BSD-3-Clause
//
// Prints a formula as it was written: `x + f(norm(x))`. One of the interpreters of the grammar (formula.hpp).
#pragma once

#include <cstdio>
#include <string>

#include <normplace/placement/formula.hpp>

namespace normplace {

inline std::string to_string(const Scalar& factor) {
    if (factor.law) return std::string(factor.name.view());
    char text[32];
    std::snprintf(text, sizeof text, "%g", factor.constant);
    return text;
}

namespace syntax {

inline std::string to_string(Stream) { return "x"; }
template <class Input>
std::string to_string(const Sublayer<Input>& e) {
    return "f(" + to_string(e.input) + ")";
}
template <Label slot, class Input>
std::string to_string(const Norm<slot, Input>& e) {
    const std::string name(slot.view());
    return (name.empty() ? std::string("norm") : "norm<" + name + ">") + "(" + to_string(e.input) + ")";
}
template <class Left, class Right>
std::string to_string(const Sum<Left, Right>& e) {
    return to_string(e.left) + " + " + to_string(e.right);
}
template <class Input>
std::string to_string(const Scaled<Input>& e) {
    const std::string factor = normplace::to_string(e.factor) + " * ";
    if constexpr (requires { e.input.left; }) return factor + "(" + to_string(e.input) + ")";
    else return factor + to_string(e.input);
}

}  // namespace syntax

/// The name of the norm in `slot` as a parameter: "norm", or "norm_in" for slot `in`.
inline std::string norm_name(const Label& slot) {
    return slot.view().empty() ? "norm" : "norm_" + std::string(slot.view());
}

}  // namespace normplace
