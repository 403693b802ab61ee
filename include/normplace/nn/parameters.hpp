// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters walked by name: `layers.3.attention.query.weight`. A layer lists its members once, in
// `Gradients::members(self)`, which serves the layer itself and its Gradients alike, since both have members of the
// same names. The walk goes through any number of such objects side by side, so a visitor sees a parameter's value, its
// gradient and whatever an optimizer keeps for it, together. Optimizers, checkpoints and reports see parameters only
// so.
#pragma once

#include <algorithm>
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <normplace/detail/check.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/xtensor.hpp>

namespace normplace {

/// A member and its name. An empty name adds nothing to the path.
template <class Member>
struct Named {
    std::string_view name;
    Member& member;
};
/// @param name a literal: it is not copied, and every walk reads it
template <class Member>
Named<Member> named(const char* name, Member& member) {
    return {name, member};
}

namespace detail {

template <class Object>
concept Tensor = requires {
    typename Object::storage_type;
};
template <class Object>
concept Sequence = !Tensor<Object> && requires(Object & object) {
    object.size();
    object[0];
};

template <class Object>
auto members_of(Object& object) {
    using Plain = std::remove_cv_t<Object>;
    if constexpr (requires { typename Plain::Gradients; }) return Plain::Gradients::members(object);
    else return Plain::members(object);
}

/// A parameter: one of the two is set.
template <class M, class V>
struct Leaf {
    M* matrix = nullptr;
    V* vector = nullptr;

    Leaf(M& tensor) : matrix(&tensor) {}
    Leaf(V& tensor) : vector(&tensor) {}
};
template <class T, class Object>
using LeafOf =
    std::conditional_t<std::is_const_v<Object>, Leaf<const Matrix<T>, const Vector<T>>, Leaf<Matrix<T>, Vector<T>>>;

/// A null pointer to an object's Scalar, or to that of its first parameter, found from its type.
template <class Object>
constexpr auto scalar_pointer() {
    using Plain = std::remove_cv_t<Object>;
    if constexpr (Tensor<Plain>) return static_cast<typename Plain::value_type*>(nullptr);
    else if constexpr (requires { typename Plain::Scalar; }) return static_cast<typename Plain::Scalar*>(nullptr);
    else if constexpr (Sequence<Plain>)
        return scalar_pointer<std::remove_cvref_t<decltype(std::declval<Plain&>()[0])>>();
    else {
        using First = std::tuple_element_t<0, decltype(members_of(std::declval<Plain&>()))>;
        return scalar_pointer<std::remove_reference_t<decltype(std::declval<First&>().member)>>();
    }
}
template <class Object>
using ScalarOf = std::remove_pointer_t<decltype(scalar_pointer<Object>())>;

/// Elements that have names instead of numbers, which only the running program knows.
template <class Element>
struct NamedElements {
    std::vector<Element> elements;
    std::vector<std::string> names;

    std::size_t size() const { return elements.size(); }
    Element& operator[](std::size_t i) { return elements[i]; }
    const Element& operator[](std::size_t i) const { return elements[i]; }
    auto begin() { return elements.begin(); }
    auto end() { return elements.end(); }
    auto begin() const { return elements.begin(); }
    auto end() const { return elements.end(); }

    void add(std::string name, Element element) {
        names.push_back(std::move(name));
        elements.push_back(std::move(element));
    }
};
template <class Object>
concept NamedSequence = requires(const Object& object) {
    { object.names[0] } -> std::convertible_to<std::string_view>;
};

/// Where a walk stands: a chain through its stack frames. Its text is made only for who reads it.
struct Path {
    static constexpr std::size_t no_index = static_cast<std::size_t>(-1);

    const Path* parent = nullptr;
    std::string_view name{};
    std::size_t index = no_index;  // of an element, which has no name

    void append_to(std::string& text) const {
        if (parent) parent->append_to(text);
        if (name.empty() && index == no_index) return;
        if (!text.empty()) text += '.';
        if (index == no_index) text += name;
        else text += std::to_string(index);
    }
    std::string text() const {
        std::string all;
        append_to(all);
        return all;
    }
};

/// What a walk calls for every parameter. The walk knows a visitor by its address, so it is made once for each kind of
/// layer, not once for each visitor: that keeps it cheap to compile.
template <class... Leaves>
struct Visitor {
    void (*call)(void* state, const Path& path, Leaves... leaves);
    void* state = nullptr;
};

/// Gives a sequence that is empty, as in gradients that have not been used yet, the size of the layer's.
template <class First, class Other>
void match_size(const Path& path, const First& first, Other& other) {
    if (other.size() == 0) {
        if constexpr (requires { other.resize(first.size()); }) other.resize(first.size());
        if constexpr (NamedSequence<Other> && !std::is_const_v<Other>) {
            other.elements.resize(first.size());
            other.names = first.names;
        }
    }
    if (first.size() != other.size())
        throw std::invalid_argument("parameters: '" + path.text() + "' has " + std::to_string(first.size()) +
                                    " elements in one object and " + std::to_string(other.size()) + " in another");
}

template <class Object, class Other>
constexpr bool same_kind() {
    if constexpr (Tensor<Object> != Tensor<Other> || Sequence<Object> != Sequence<Other>) return false;
    else if constexpr (Sequence<Object>) return true;
    else if constexpr (Tensor<Object>)
        return std::tuple_size_v<typename Object::shape_type> == std::tuple_size_v<typename Other::shape_type>;
    else
        return std::tuple_size_v<decltype(members_of(std::declval<Object&>()))> ==
               std::tuple_size_v<decltype(members_of(std::declval<Other&>()))>;
}

template <class... Leaves, class First, class... Others>
void walk(const Path& path, const Visitor<Leaves...>& visitor, First& first, Others&... others);

template <std::size_t i, class... Leaves, class First, class... Others>
void walk_member(const Path& path, const Visitor<Leaves...>& visitor, const First& first, const Others&... others) {
    walk(Path{&path, std::get<i>(first).name}, visitor, std::get<i>(first).member, std::get<i>(others).member...);
}
template <std::size_t... i, class... Leaves, class First, class... Others>
void walk_members(std::index_sequence<i...>, const Path& path, const Visitor<Leaves...>& visitor, const First& first,
                  const Others&... others) {
    (walk_member<i>(path, visitor, first, others...), ...);
}

/// Calls `visitor` for every parameter of `first`, with the tensors of the same name in `others`.
template <class... Leaves, class First, class... Others>
void walk(const Path& path, const Visitor<Leaves...>& visitor, First& first, Others&... others) {
    static_assert((same_kind<First, Others>() && ...), "normplace: these gradients belong to another kind of layer.");
    if constexpr (Tensor<First>) {
        visitor.call(visitor.state, path, first, others...);
    } else if constexpr (Sequence<First>) {
        (match_size(path, first, others), ...);
        for (std::size_t i = 0; i < first.size(); ++i)
            if constexpr (NamedSequence<First>) walk(Path{&path, first.names[i]}, visitor, first[i], others[i]...);
            else walk(Path{&path, {}, i}, visitor, first[i], others[i]...);
    } else {
        using List = decltype(members_of(first));
        walk_members(std::make_index_sequence<std::tuple_size_v<List>>(), path, visitor, members_of(first),
                     members_of(others)...);
    }
}

template <class Value, class Other>
void require_same_shape(const Path& path, const Value& value, const Other& other) {
    if (shape_of(value) != shape_of(other))
        throw std::invalid_argument("parameters: '" + path.text() + "' has shape " + shape_text(shape_of(value)) +
                                    " in one object and " + shape_text(shape_of(other)) +
                                    " in another; zero_gradients gives gradients their shapes");
}

/// Throws unless every parameter has the same shape in all objects.
template <class Value, class... Others>
void check_leaf(void*, const Path& path, Value value, Others... others) {
    if (value.matrix) {
        if (value.matrix->size()) (require_same_shape(path, *value.matrix, *others.matrix), ...);
    } else if (value.vector->size()) (require_same_shape(path, *value.vector, *others.vector), ...);
}

template <class Value, class Gradient>
void zero_leaf(void*, const Path&, Value value, Gradient gradient) {
    const auto zero = [](const auto& shaped, auto& tensor) {
        reshape(tensor, shape_of(shaped));
        auto* data = tensor.data();
        parallel_ranges(tensor.size(), static_cast<double>(tensor.size()) / 4,
                        [&](std::size_t begin, std::size_t end, std::size_t) {
                            std::fill(data + begin, data + end, std::decay_t<decltype(*data)>(0));
                        });
    };
    if (value.matrix) zero(*value.matrix, *gradient.matrix);
    else zero(*value.vector, *gradient.vector);
}

/// The name that is handed to visitors, in memory that the next walk of this thread uses again.
inline std::string& name_memory() {
    thread_local std::string memory;
    return memory;
}

template <class Visit, class Value, class... Others>
struct NamedVisit {
    Visit& visit;
    std::string name = std::move(name_memory());  // moved, because a visitor may walk as well

    static void call(void* state, const Path& path, Value value, Others... others) {
        auto& [visit, name] = *static_cast<NamedVisit*>(state);
        name.clear();
        path.append_to(name);
        if (value.matrix) {
            if (value.matrix->size()) visit(std::as_const(name), *value.matrix, *others.matrix...);
        } else if (value.vector->size()) visit(std::as_const(name), *value.vector, *others.vector...);
    }
};

}  // namespace detail

/// Calls `visit(name, value, others...)` for every parameter of `layer`, a Matrix or a Vector, with the tensors of the
/// same name in `others`: its gradients, say. Absent parameters (a layer without biases) are passed over. The name, a
/// `const std::string&`, is valid during the call.
/// @throws std::invalid_argument before the first call, when the objects have not the same number of layers, or their
/// tensors not the same shapes
template <class Visit, class Layer, class... Others>
void for_each_parameter(Visit&& visit, Layer& layer, Others&... others) {
    using T = detail::ScalarOf<Layer>;
    using Visitor = detail::Visitor<detail::LeafOf<T, Layer>, detail::LeafOf<T, Others>...>;
    using NamedVisit =
        detail::NamedVisit<std::remove_reference_t<Visit>, detail::LeafOf<T, Layer>, detail::LeafOf<T, Others>...>;
    if constexpr (sizeof...(others) > 0) detail::walk({}, Visitor{&detail::check_leaf}, layer, others...);
    NamedVisit named{visit};
    detail::walk({}, Visitor{&NamedVisit::call, &named}, layer, others...);
    detail::name_memory() = std::move(named.name);
}

/// Gives every gradient the shape of its parameter and sets it to 0. `backward` adds to gradients: call this first.
/// Allocates nothing when the shapes are right already.
/// @throws std::invalid_argument when `gradients` are those of a layer of another size
template <class Layer, class Gradients>
void zero_gradients(const Layer& layer, Gradients& gradients) {
    using T = detail::ScalarOf<Layer>;
    using Visitor = detail::Visitor<detail::LeafOf<T, const Layer>, detail::LeafOf<T, Gradients>>;
    detail::walk({}, Visitor{&detail::zero_leaf}, layer, gradients);
}

/// The number of scalars in all parameters of `layer`.
template <class Layer>
std::size_t parameter_count(const Layer& layer) {
    std::size_t count = 0;
    for_each_parameter([&](const std::string&, const auto& value) { count += value.size(); }, layer);
    return count;
}

/// What has no parameters.
struct NoParameters {
    using Gradients = NoParameters;
    template <class Self>
    static std::tuple<> members(Self&) {
        return {};
    }
};

}  // namespace normplace
