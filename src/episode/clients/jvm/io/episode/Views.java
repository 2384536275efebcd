package io.episode;

import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Views over patterns: each keeps its text, and is planned when it is read, with the settings and in the database with
 * which it was created.
 */
final class Views {
  private Views() {}

  /**
   * The session in which the view is planned whose text Spark parses now: a copy of the reader's. Spark may hold a lock
   * of the reader's catalog. If no view is read, it is the given session.
   */
  static org.apache.spark.sql.SparkSession reader(org.apache.spark.sql.SparkSession session) throws Exception {
    Origin origin = CurrentOrigin.get();
    if (!origin.objectType().contains("VIEW") || origin.objectName().isEmpty()) {
      return session;
    }
    SparkSession copy = ((SparkSession) session).cloneSession();
    SessionCatalog catalog = copy.sessionState().catalog();
    // The settings of this thread are those of the view.
    for (Iterator<Tuple2<String, String>> each = SQLConf.get().getAllConfs().iterator(); each.hasNext(); ) {
      Tuple2<String, String> setting = each.next();
      copy.sessionState().conf().setConfString(setting._1(), setting._2());
    }
    String[] parts = origin.objectName().get().split("\\."); // without quotes, so without dots in names
    Option<String> database = Option.apply(parts.length > 1 ? parts[parts.length - 2] : null);
    TableIdentifier name = new TableIdentifier(parts[parts.length - 1], database);
    CatalogTable view = catalog.getTempViewOrPermanentTableMetadata(name);
    if (!catalog.isTempView(name)) {
      catalog.clearTempTables(); // which a permanent view does not see
    }
    StringBuilder place = new StringBuilder();
    for (Iterator<String> each = view.viewCatalogAndNamespace().iterator(); each.hasNext(); ) {
      place.append(place.length() == 0 ? "USE `" : ".`").append(each.next().replace("`", "``")).append('`');
    }
    if (place.length() > 0) {
      ((org.apache.spark.sql.SparkSession) copy).sql(place.toString());
    }
    return copy;
  }
}
