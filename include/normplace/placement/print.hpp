// SPDX-License-Identifier: BSD-3-Clause
//
// Prints a formula as it was written: `x + f(norm(x))`. One of the readers of the grammar (formula.hpp). What no
// formula of x, f and norm can say follows in words.
#pragma once

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

#include <normplace/placement/placement.hpp>

namespace normplace {

inline std::string to_string(const Scalar& factor) {
    if (factor.law) return std::string(factor.name.view());
    char text[32];
    std::snprintf(text, sizeof text, "%g", factor.constant);
    return text;
}

namespace syntax {

inline std::string to_string(const Formula& formula, std::size_t at);

inline bool needs_brackets(const Formula& formula, std::size_t at) {
    const Node::Kind kind = formula.nodes[at].kind;
    return kind == Node::Kind::sum || kind == Node::Kind::choice;
}
inline std::string bracketed(const Formula& formula, std::size_t at, bool brackets) {
    return brackets ? "(" + to_string(formula, at) + ")" : to_string(formula, at);
}
inline std::string times(const std::string& factor, const Formula& formula, std::size_t at) {
    return factor + " * " + bracketed(formula, at, needs_brackets(formula, at));
}

/// " + b", or " - b" where b has a negative factor.
inline std::string plus(const Formula& formula, std::size_t at) {
    const Node& node = formula.nodes[at];
    if (node.kind == Node::Kind::scaled && !node.factor.law && node.factor.constant < 0.0) {
        if (node.factor.constant == -1.0)
            return " - " + bracketed(formula, node.first, needs_brackets(formula, node.first));
        return " - " + times(normplace::to_string(Scalar{{}, -node.factor.constant, nullptr}), formula, node.first);
    }
    return " + " + bracketed(formula, at, node.kind == Node::Kind::choice);
}

inline std::string to_string(const Formula& formula, std::size_t at) {
    const Node& node = formula.nodes[at];
    const std::string name(node.name.view());
    switch (node.kind) {
        case Node::Kind::stream: return name;
        case Node::Kind::sublayer: return "f(" + to_string(formula, node.first) + ")";
        case Node::Kind::norm:
            return (name.empty() ? std::string("norm") : "norm<" + name + ">") + "(" + to_string(formula, node.first) +
                   ")";
        case Node::Kind::scaled: return times(normplace::to_string(node.factor), formula, node.first);
        case Node::Kind::gated: return times(std::string(node.gate.name.view()), formula, node.first);
        case Node::Kind::choice:
            return std::string(node.condition.name.view()) + " ? " + to_string(formula, node.first) + " : " +
                   to_string(formula, node.second);
        case Node::Kind::sum: break;
    }
    return bracketed(formula, node.first, formula.nodes[node.first].kind == Node::Kind::choice) +
           plus(formula, node.second);
}

}  // namespace syntax

/// `x + f(norm(x))`; what several streams become is separated by semicolons: `norm(x + f(x)); r + f(x)`.
inline std::string to_string(const Formula& formula) {
    std::string text;
    for (std::size_t k = 0; k < formula.result_count; ++k)
        text += (k ? "; " : "") + syntax::to_string(formula, formula.results[k]);
    return text;
}

/// `norms inside f: query, key`; `a factor for each head`; both, or nothing.
inline std::string to_string(const SublayerNorms& inside) {
    std::string text;
    for (const auto& [there_is, name] : {std::pair{inside.query, "query"},
                                         {inside.key, "key"},
                                         {inside.value, "value"},
                                         {inside.heads, "heads"},
                                         {inside.hidden, "hidden"}})
        if (there_is) text += (text.empty() ? "norms inside f: " : ", ") + std::string(name);
    for (const auto& [there_is, name] : {std::pair{inside.query_key_scale, "a factor for each entry of query and key"},
                                         {inside.head_scale, "a factor for each head"}})
        if (there_is) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

/// The formula, and what is inside f anywhere in a stack alone: `x + f(norm(x)), norms inside f: query, key`.
inline std::string to_string(const AnyPlacement& placement) {
    SublayerNorms anywhere;
    for (const SublayerKind kind : {SublayerKind::attention, SublayerKind::feed_forward}) {
        // First, middle and last layer: more than any published placement tells apart.
        for (std::size_t layer = 1; layer <= 3; ++layer) {
            const SublayerNorms inside = placement.inside({layer, 3, kind});
            const bool attends = kind == SublayerKind::attention;
            anywhere.query |= attends && inside.query;
            anywhere.key |= attends && inside.key;
            anywhere.value |= attends && inside.value;
            anywhere.query_key_scale |= attends && inside.query_key_scale;
            anywhere.heads |= attends && inside.heads;
            anywhere.head_scale |= attends && inside.head_scale;
            anywhere.hidden |= !attends && inside.hidden;
        }
    }
    const std::string inside = to_string(anywhere);
    return to_string(placement.formula) + (inside.empty() ? "" : ", " + inside);
}

/// The name of the norm in `slot` as a parameter: "norm", or "norm_in" for slot `in`.
inline std::string norm_name(const Label& slot) {
    return slot.view().empty() ? "norm" : "norm_" + std::string(slot.view());
}

}  // namespace normplace
