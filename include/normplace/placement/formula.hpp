// SPDX-License-Identifier: BSD-3-Clause
//
// The grammar in which a placement is written, as the papers write it:
//
//     x + f(norm(x))                                              Pre-LN
//     norm(x + f(x))                                              Post-LN
//     x + norm<out>(f(norm<in>(x)))                               Peri-LN
//     norm(alpha * x + f(x))                                      DeepNorm
//     when(early, norm(x + f(x)), x + f(norm(x)))                 Mix-LN: a choice by layer or by sublayer
//     x + gate("lambda", 0.1) * f(norm(x))                        LayerScale: a learned factor
//     streams(norm(x + f(x)), r + f(x))                           ResiDual: two streams, f computed once
//
// `x` is the residual stream, `f` the sublayer, `norm` a normalization that the block owns (its slot says which one
// when there are several), `+`, `-` and `scalar *` what they say. A formula is a constexpr value: its nodes, operands
// before those that use them, and equal ones kept once. So what is written twice, such as f(x) above, is computed once.
// It computes nothing itself: plan.hpp reads it at one place of a stack, and forward, backward and moments follow the
// plan; print.hpp writes it out.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include <normplace/placement/depth.hpp>

namespace normplace {

/// A short name kept inside the object, so that it can be a template argument. At most 23 characters.
struct Label {
    char text[24]{};

    constexpr Label() = default;
    template <std::size_t N>
    constexpr Label(const char (&name)[N]) {  // NOLINT: "in" is meant to read as a label
        static_assert(N <= sizeof(text), "normplace: a slot's or a scalar's name has at most 23 characters.");
        for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
    }
    constexpr std::string_view view() const { return text; }
    constexpr bool operator==(const Label& other) const { return view() == other.view(); }
};

/// A factor in a formula: a constant, or a named law of the depth such as DeepNorm's alpha = (2L)^(1/4).
struct Scalar {
    Label name{};
    double constant = 1.0;
    double (*law)(const Depth&) = nullptr;

    /// @throws std::invalid_argument when the law gives no finite number there
    constexpr double at(const Depth& depth) const {
        const double value = law ? law(depth) : constant;
        if (!(value - value == 0.0))
            throw std::invalid_argument("the scalar '" + std::string(name.view()) + "' is " + std::to_string(value) +
                                        " at layer " + std::to_string(depth.layer) + " of " +
                                        std::to_string(depth.layers));
        return value;
    }
    constexpr bool operator==(const Scalar&) const = default;
};

/// A named scalar that depends on the depth: `scalar("alpha", [](const Depth& d) { return ...; })`.
constexpr Scalar scalar(const Label& name, double (*law)(const Depth&)) { return {name, 1.0, law}; }

/// A learned factor, a parameter of the block under this name: one number, or one for each channel.
struct Gate {
    Label name{};
    Scalar start{};
    bool per_channel = false;
    bool per_layer = false;  ///< one for all sublayers of a layer, of which the first owns it
    constexpr bool operator==(const Gate&) const = default;
};

/// One learned number, which starts at `start` or by a law of the depth.
constexpr Gate learned(const Label& name, double start) { return {name, {{}, start, nullptr}, false}; }
constexpr Gate learned(const Label& name, double (*start)(const Depth&)) { return {name, {name, 1.0, start}, false}; }
/// One learned number for all sublayers of a layer.
constexpr Gate shared(const Label& name, double start) { return {name, {{}, start, nullptr}, false, true}; }
/// A learned number for each of the D channels.
constexpr Gate gate(const Label& name, double start) { return {name, {{}, start, nullptr}, true}; }
constexpr Gate gate(const Label& name, double (*start)(const Depth&)) { return {name, {name, 1.0, start}, true}; }

/// Where in the stack one formula holds and where another: by layer, or by kind of sublayer.
struct Condition {
    Label name{};
    bool (*holds)(const Depth&) = nullptr;
    constexpr bool operator==(const Condition&) const = default;
};
/// `condition("l odd", [](const Depth& depth) { return depth.layer % 2 == 1; })`
constexpr Condition condition(const Label& name, bool (*holds)(const Depth&)) { return {name, holds}; }
/// In self- and cross-attention, not in the feed-forward.
inline constexpr Condition in_attention{
    "attention", [](const Depth& depth) { return depth.sublayer != SublayerKind::feed_forward; }};
/// In a layer's first sublayer, its self-attention.
inline constexpr Condition first_in_layer{"first",
                                          [](const Depth& depth) { return depth.sublayer == SublayerKind::attention; }};

/// One operation of a formula.
struct Node {
    enum class Kind { stream, sublayer, norm, sum, scaled, gated, choice };

    Kind kind = Kind::stream;
    Label name{};            ///< a stream's, or a norm's slot
    double start = 1.0;      ///< of a norm's gain
    Scalar factor{};         ///< of scaled
    Gate gate{};             ///< of gated
    Condition condition{};   ///< of choice
    std::size_t first = 0;   ///< its operand, or a stream's number
    std::size_t second = 0;  ///< the other one, of sum and choice
    constexpr bool operator==(const Node&) const = default;
};

struct Formula {
    static constexpr std::size_t most_nodes = 64, most_streams = 4;

    std::array<Node, most_nodes> nodes{};
    std::size_t size = 0;
    std::array<std::size_t, most_streams> results{};  ///< the nodes that become the streams, in their order
    std::size_t result_count = 0;

    constexpr bool operator==(const Formula&) const = default;

    /// The place of a node, which is added if it is not there.
    constexpr std::size_t place_of(const Node& node) {
        for (std::size_t i = 0; i < size; ++i)
            if (nodes[i] == node) return i;
        if (size == most_nodes) throw std::length_error("normplace: a formula has at most 64 different terms");
        nodes[size] = node;
        return size++;
    }
    constexpr Formula& result(const Node& node) {
        results[0] = place_of(node);
        result_count = 1;
        return *this;
    }
    /// Adds all nodes of another formula. Returns where its results are now.
    constexpr std::array<std::size_t, most_streams> take(const Formula& other) {
        std::array<std::size_t, most_nodes> place{};
        for (std::size_t i = 0; i < other.size; ++i) {
            Node node = other.nodes[i];
            if (node.kind != Node::Kind::stream) {
                node.first = place[node.first];
                node.second = place[node.second];
            }
            place[i] = place_of(node);
        }
        std::array<std::size_t, most_streams> moved{};
        for (std::size_t k = 0; k < other.result_count; ++k) moved[k] = place[other.results[k]];
        return moved;
    }
    /// The one result of an expression.
    constexpr std::size_t root() const {
        if (result_count != 1) throw std::logic_error("normplace: streams(...) stands outermost in a formula");
        return results[0];
    }
};

/// A residual stream. Number 0 is `x`; a placement with more streams names the others.
constexpr Formula stream(std::size_t number, const Label& name) {
    if (number >= Formula::most_streams) throw std::length_error("normplace: a formula has at most 4 streams");
    return Formula{}.result({.kind = Node::Kind::stream, .name = name, .first = number});
}

/// The residual stream.
inline constexpr Formula x = stream(0, "x");

/// The sublayer (attention or feed-forward), applied to an expression.
constexpr Formula f(Formula input) { return input.result({.kind = Node::Kind::sublayer, .first = input.root()}); }

/// The slots of a placement with a norm on both sides of the sublayer. `norm<"any-name">(...)` works as well.
inline constexpr Label in{"in"};
inline constexpr Label out{"out"};

/// A normalization of an expression. Each slot is one norm with its own gain and bias; the gain starts at `start`.
template <Label slot = Label{}>
constexpr Formula norm(Formula input, double start = 1.0) {
    return input.result({.kind = Node::Kind::norm, .name = slot, .start = start, .first = input.root()});
}

constexpr Formula operator+(Formula left, const Formula& right) {
    const std::size_t first = left.root(), second = left.take(right)[0];
    right.root();
    return left.result({.kind = Node::Kind::sum, .first = first, .second = second});
}
constexpr Formula operator*(const Scalar& factor, Formula input) {
    return input.result({.kind = Node::Kind::scaled, .factor = factor, .first = input.root()});
}
constexpr Formula operator*(double factor, const Formula& input) { return Scalar{{}, factor, nullptr} * input; }
constexpr Formula operator*(const Formula& input, double factor) { return factor * input; }
constexpr Formula operator/(const Formula& input, double divisor) { return 1.0 / divisor * input; }
constexpr Formula operator-(const Formula& left, const Formula& right) { return left + -1.0 * right; }
constexpr Formula operator*(const Gate& gate, Formula input) {
    return input.result({.kind = Node::Kind::gated, .gate = gate, .first = input.root()});
}

/// `yes` where the condition holds, elsewhere `no`.
constexpr Formula when(const Condition& condition, Formula yes, const Formula& no) {
    if (yes.result_count != no.result_count)
        throw std::logic_error("normplace: both sides of when(...) have the same number of streams");
    const auto others = yes.take(no);
    for (std::size_t k = 0; k < yes.result_count; ++k)
        yes.results[k] = yes.place_of(
            {.kind = Node::Kind::choice, .condition = condition, .first = yes.results[k], .second = others[k]});
    return yes;
}

/// What each stream becomes, in the order of their numbers.
template <class... Others>
constexpr Formula streams(Formula first, const Others&... others) {
    static_assert(sizeof...(others) < Formula::most_streams, "normplace: a formula has at most 4 streams.");
    first.root();
    const auto add = [&](const Formula& other) {
        other.root();
        first.results[first.result_count] = first.take(other)[0];
        ++first.result_count;
    };
    (add(others), ...);
    return first;
}

namespace syntax {

/// Which nodes of a formula are in use where its choices fall as given: bit c for the c-th of `choices`.
struct Alternatives {
    const Formula& formula;
    std::array<Condition, 4> choices{};
    std::size_t count = 0;

    constexpr explicit Alternatives(const Formula& of) : formula(of) {
        for (std::size_t i = 0; i < of.size; ++i) {
            const Node& node = of.nodes[i];
            if (node.kind != Node::Kind::choice || number_of(node.condition) < count) continue;
            if (count == choices.size()) throw std::length_error("normplace: a formula has at most 4 conditions");
            choices[count++] = node.condition;
        }
    }
    constexpr std::size_t number_of(const Condition& condition) const {
        std::size_t i = 0;
        while (i < count && !(choices[i] == condition)) ++i;
        return i;
    }
    constexpr std::size_t size() const { return std::size_t{1} << count; }
    constexpr std::array<bool, Formula::most_nodes> used(std::size_t fallen) const {
        std::array<bool, Formula::most_nodes> result{};
        for (std::size_t k = 0; k < formula.result_count; ++k) result[formula.results[k]] = true;
        for (std::size_t i = formula.size; i-- > 0;) {
            const Node& node = formula.nodes[i];
            if (!result[i] || node.kind == Node::Kind::stream) continue;
            const bool second_only = node.kind == Node::Kind::choice && !(fallen >> number_of(node.condition) & 1);
            result[second_only ? node.second : node.first] = true;
            if (node.kind == Node::Kind::sum) result[node.second] = true;
        }
        return result;
    }
};

/// Whether f stands in the formula exactly `wanted` times, however its choices fall.
constexpr bool has_sublayers(const Formula& formula, std::size_t wanted) {
    const Alternatives alternatives(formula);
    for (std::size_t fallen = 0; fallen < alternatives.size(); ++fallen) {
        const auto used = alternatives.used(fallen);
        std::size_t found = 0;
        for (std::size_t i = 0; i < formula.size; ++i)
            found += used[i] && formula.nodes[i].kind == Node::Kind::sublayer;
        if (found != wanted) return false;
    }
    return true;
}

/// Whether no two norms have one slot, and no two gates one name, however its choices fall.
constexpr bool has_distinct_names(const Formula& formula) {
    const Alternatives alternatives(formula);
    for (std::size_t fallen = 0; fallen < alternatives.size(); ++fallen) {
        const auto used = alternatives.used(fallen);
        for (std::size_t i = 0; i < formula.size; ++i)
            for (std::size_t j = i + 1; j < formula.size; ++j) {
                const Node &a = formula.nodes[i], &b = formula.nodes[j];
                if (!used[i] || !used[j] || a.kind != b.kind) continue;
                if (a.kind == Node::Kind::norm && a.name == b.name) return false;
                if (a.kind == Node::Kind::gated && a.gate.name == b.gate.name) return false;
            }
    }
    return true;
}

/// Whether the streams that a formula reads are among those that it gives.
constexpr bool reads_streams_below(const Formula& formula, std::size_t count) {
    for (std::size_t i = 0; i < formula.size; ++i)
        if (formula.nodes[i].kind == Node::Kind::stream && formula.nodes[i].first >= count) return false;
    return true;
}

constexpr std::size_t count(const Formula& formula, Node::Kind kind) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < formula.size; ++i) found += formula.nodes[i].kind == kind;
    return found;
}
constexpr std::size_t count_norms(const Formula& formula) { return count(formula, Node::Kind::norm); }
constexpr std::size_t count_gates(const Formula& formula) { return count(formula, Node::Kind::gated); }

/// Whether a learned factor belongs to a layer's first sublayer.
constexpr bool has_shared_gate(const Formula& formula) {
    for (std::size_t i = 0; i < formula.size; ++i)
        if (formula.nodes[i].gate.per_layer) return true;
    return false;
}

/// Whether a learned factor starts by a law of the depth.
constexpr bool has_gate_law(const Formula& formula) {
    for (std::size_t i = 0; i < formula.size; ++i)
        if (formula.nodes[i].gate.start.law) return true;
    return false;
}

/// Whether what it computes is everywhere the same but for factors.
constexpr bool has_one_shape(const Formula& formula) {
    for (std::size_t i = 0; i < formula.size; ++i)
        if (formula.nodes[i].kind == Node::Kind::choice || formula.nodes[i].gate.per_layer) return false;
    return true;
}

/// Whether a norm's gain starts at anything but 1.
constexpr bool has_norm_start(const Formula& formula) {
    for (std::size_t i = 0; i < formula.size; ++i)
        if (formula.nodes[i].start != 1.0) return true;
    return false;
}

/// Whether a norm's argument has both f and a stream with a factor of its own, as in norm(alpha * x + f(x)).
constexpr bool weighs_stream_in_norm(const Formula& formula) {
    // Of what stands below a node, outside other norms and f: f itself, a stream, a stream that is multiplied.
    std::array<bool, Formula::most_nodes> f{}, stream{}, weighed{};
    for (std::size_t i = 0; i < formula.size; ++i) {  // operands stand first
        const Node& node = formula.nodes[i];
        const bool multiplied = node.kind == Node::Kind::scaled || node.kind == Node::Kind::gated;
        switch (node.kind) {
            case Node::Kind::stream: stream[i] = true; break;
            case Node::Kind::sublayer: f[i] = true; break;
            case Node::Kind::norm:
                if (f[node.first] && weighed[node.first]) return true;
                break;
            default:
                for (const std::size_t operand : {node.first, multiplied ? node.first : node.second}) {
                    f[i] = f[i] || f[operand];
                    stream[i] = stream[i] || stream[operand];
                    weighed[i] = weighed[i] || weighed[operand] || (multiplied && stream[operand]);
                }
        }
    }
    return false;
}

/// Whether it is not the same everywhere in a stack.
constexpr bool depends_on_depth(const Formula& formula) {
    for (std::size_t i = 0; i < formula.size; ++i) {
        const Node& node = formula.nodes[i];
        if (node.factor.law || node.gate.start.law || node.gate.per_layer || node.kind == Node::Kind::choice)
            return true;
    }
    return false;
}

}  // namespace syntax
}  // namespace normplace
