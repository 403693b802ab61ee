// SPDX-License-Identifier: BSD-3-Clause
#include "../shared/json.hpp"

#include "files.hpp"

namespace accuracy {

using shared::Json;
using shared::json_number;

namespace {

Json json_of(const Spread& spread) {
    return {{"median", json_number(spread.median)},
            {"percentile_95", json_number(spread.percentile_95)},
            {"worst", json_number(spread.worst)}};
}

Json json_of(const Row& row) {
    return {{"row", row.number},
            {"held_out", row.held_out},
            {"seeds", row.seeds},
            {"model", row.description()},
            {"layers", row.model.layers},
            {"width", row.model.width},
            {"heads", row.model.heads},
            {"ffn", row.model.feed_forward},
            {"sequence", row.model.sequence},
            {"batch", row.model.batch},
            {"vocabulary", row.model.vocabulary},
            {"causal", row.model.causal},
            {"norm", std::string(normplace::name(row.model.norm))},
            {"activation", row.model.activation.name},
            {"init", row.model.initialization.name()}};
}

Json json_of(const PlacementSummary& summary) {
    Json placement{{"name", summary.placement}};
    for (std::size_t part = 0; part < part_words.size(); ++part)
        for (std::size_t q = 0; q < quantity_texts.size(); ++q) {
            const Group& group = summary.groups[part][q];
            placement[part_words[part]][quantity_texts[q].word] = {
                {"count", group.count},
                {"without_prediction", group.missing},
                {"beneath_rounding", group.rounded},
                {"error", json_of(group.error)},
                {"beyond_noise", json_of(group.beyond_noise)},
                {"standard_error", json_number(group.standard_error)}};
        }
    placement["laws"] = nullptr;
    for (std::size_t part = 0; summary.has_laws && part < 2; ++part)
        for (std::size_t which = 0; which < 2; ++which) {
            const LawGroup& group = summary.laws[part][which];
            placement["laws"][part_words[part]][which == 0 ? "w2" : "all"] = {
                {"predicted", json_of(group.predicted)},
                {"xiong", json_of(group.xiong)},
                {"kedia", json_of(group.kedia)},
                {"standard_error", json_number(group.standard_error)}};
        }
    placement["warning"] = summary.rows_with_warnings > 0 ? Json(summary.warning) : Json(nullptr);
    return placement;
}

}  // namespace

void write_json(std::ostream& stream, const Options& options, const std::vector<Row>& rows,
                const std::vector<PlacementSummary>& summaries, const std::vector<std::string>& exceeded) {
    Json document{{"config", {{"size", options.size}, {"seeds_scale", options.seeds_scale}}},
                  {"rows", Json::array()},
                  {"placements", Json::array()},
                  {"exceeded", exceeded}};
    for (const Row& row : rows) document["rows"].push_back(json_of(row));
    for (const PlacementSummary& summary : summaries) document["placements"].push_back(json_of(summary));
    shared::write(stream, document);
}

}  // namespace accuracy
